//! Times on the command line by the clock of a job, whose zone the service knows.

use crate::{
    cli::{error::CliError, when::When},
    core::schedule::TimeZones,
};
use jiff::Timestamp;
use rallypoint_client::{Client, api};

/// What to do where the zone of a job is not known here.
const IN_UTC: &str = "write the times in UTC, like 2026-11-01T00:00:00Z";

/// The instant. The service is asked for the zone of the job if it matters.
pub(super) async fn instant(client: &Client, job: &str, when: When) -> Result<Timestamp, CliError> {
    if !when.is_local() {
        return Ok(when.in_utc());
    }
    let what = format!("cannot read the time zone of job {job}");
    let request = api::GetJobRequest {
        name: job.to_owned(),
    };
    let known = client.get_job(request).await;
    let known = known.map_err(|error| CliError::call(&what, &error))?;
    let settings = known.job.and_then(|job| job.settings);
    let schedule = settings.and_then(|settings| settings.schedule);
    let zone = schedule.map(|schedule| schedule.time_zone);
    let zone = zone.filter(|zone| !zone.is_empty());
    let zone = TimeZones::bundled().zone(zone.as_deref().unwrap_or("UTC"));
    let zone = zone.map_err(|why| CliError::new(what).why(why).next(IN_UTC))?;
    Ok(when.in_zone(&zone))
}
