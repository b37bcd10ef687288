//! Jobs of pg_cron: their statements become the steps of jobs.

use super::{
    FromDatabase, Read,
    imported::{Imported, Names, quoted},
    unread,
    wall_clock::Theirs,
    zone_of,
};
use crate::{
    cli::{error::CliError, postgres_url},
    database_url::options_of,
    server::pg_cron,
};

/// There, each due time of a cron schedule has its run, and of an interval one waits.
fn overlap_of(seconds: Option<u32>) -> &'static str {
    match seconds {
        None => "QUEUE_ALL",
        Some(_) => "QUEUE_ONE",
    }
}

pub(super) async fn read(from: FromDatabase) -> Result<Read, CliError> {
    postgres_url::read(postgres_url::ADMINISTRATOR, &from.url, options_of)?;
    let read = pg_cron::read(&from.url).await;
    let mut table = read.map_err(|error| unread("cannot read cron.job", error))?;
    table.time_zone = zone_of(from.time_zone.clone(), table.time_zone)?;
    let (mut names, mut left_out) = (Names::default(), Vec::new());
    let mut jobs = Vec::new();
    for row in table.jobs {
        let source = format!("job {}", row.id);
        if !row.active {
            left_out.push((source, "it is not active".to_owned()));
            continue;
        }
        let place = format!("database {}", row.database);
        if let Err(why) = from.refuse_elsewhere(row.database != table.here, &place) {
            left_out.push((source, why));
            continue;
        }
        let known = row.name.unwrap_or_else(|| format!("pg_cron-{}", row.id));
        let seconds = row
            .schedule
            .strip_suffix("seconds")
            .or(row.schedule.strip_suffix("second"));
        let seconds: Option<u32> = seconds.and_then(|text| text.trim().parse().ok());
        let fields = seconds.is_none().then(|| row.schedule.replace('$', "L"));
        let schedule = match (&fields, seconds) {
            (Some(fields), _) => format!(
                "{{ cron = {}, time_zone = {} }}",
                quoted(fields),
                quoted(&table.time_zone)
            ),
            (None, seconds) => format!(
                "{{ interval = {{ every = \"{}s\" }} }}",
                seconds.unwrap_or(1)
            ),
        };
        let overlap = overlap_of(seconds);
        let fields = fields.filter(|fields| !fields.contains('L'));
        jobs.push(Imported {
            name: names.of(&known),
            keys: format!(
                "schedule = {schedule}\noverlap = \"{overlap}\"\nmisfire = \"SKIP\"\nsteps = [{{ statement = {}, target = {} }}]\n",
                quoted(&row.command),
                quoted(from.target())
            ),
            source,
            theirs: fields.as_deref().and_then(Theirs::parse),
            time_zone: table.time_zone.clone(),
            notes: vec![format!(
                "target `{}` must be {place} with login {} (`serve --target`)",
                from.target(),
                row.user
            )],
            crontab_line: None,
        });
    }
    Ok((jobs, left_out, from.to))
}
