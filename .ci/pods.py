"""The pods that an object of Kubernetes makes, whichever kind it is."""


def pod_of(document):
    """The description of its pods; None: it makes none."""
    spec = document.get("spec") or {}
    if document["kind"] == "Pod":
        return spec
    if document["kind"] == "PodTemplate":
        spec = document
    # A CronJob, and a ScaledJob of KEDA.
    job = spec["jobTemplate"]["spec"] if "jobTemplate" in spec else spec.get("jobTargetRef", spec)
    pod = (job.get("template") or {}).get("spec") or {}
    return pod if "containers" in pod else None
