// Messages of the service name its calls; who reads the page has views and buttons instead.

const WORDS = {
  "the list of jobs has": "Jobs shows", "ListSchedulers shows": "Schedulers shows", "ListTasks": "the list of tasks", "the list of its runs has": "the page of the job shows", "GetClaim tells": "the page of the resource tells",
  "CreateResource": "`rallypoint resource create`", "UpdateResource": "`rallypoint resource update`", "ExecAsync": "`rallypoint exec`", "(GetScheduler)": "(`rallypoint exec`)",
  "ResumeScheduler with ignore_failures": "“Go on despite failures”", "ResumeScheduler": "“Resume”", "ResumeTarget": "“Resume” in the view System", "RetryFailed": "“Retry failed”",
  "`overlap` is SKIP": "what is due meanwhile is skipped", "CancelRun": "“Cancel run”", "ResumeJob": "“Resume”", "StartAgent lets": "“Start the agent” lets", "ForceRelease": "“Force release”",
};
const NAMED = new RegExp(Object.keys(WORDS).map((one) => one.replace(/[()]/g, "\\$&")).join("|"), "g");

/** A message of the service with what the page has in place of calls. */
export const forReaders = (text) => (text ?? "").replace(NAMED, (named) => WORDS[named]);
