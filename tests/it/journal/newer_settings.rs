//! What a newer version has set of jobs and resources outlives a change by this one.

use super::{Owned, jobs::of_job, make::*};
use rallypoint::{core::*, journal::recover};
use sqlx::Executor;
use std::{collections::BTreeMap, sync::Arc};

#[tokio::test]
async fn what_a_newer_version_has_set_outlives_a_change_by_this_one() {
    let mut owned = Owned::new().await;
    let (jobs, resources) = (of_job(1, owned.now), definition(owned.now));
    owned
        .write(Records {
            jobs,
            resources,
            ..Records::default()
        })
        .await;
    let newer = "update job set settings = overlay(settings placing '{\"color\":7,' from 1 for 1);
        update resource set settings = overlay(settings placing '{\"color\":7,' from 1 for 1)";
    owned.psql().await.execute(newer).await.expect("written");

    let now = owned.now;
    let read = recover(&owned.journal, ENOUGH, since(now)).await.unwrap();
    let mut records = Records::default();
    for (image, _) in read.jobs.jobs {
        let settings = JobSettings {
            max_runtime: None,
            ..JobSettings::clone(&image.settings)
        };
        let image = JobImage {
            settings: Arc::new(settings),
            ..image
        };
        records.jobs.jobs.insert(image.no, image);
    }
    let changed = read.resources.definitions.into_iter().map(|image| {
        let settings = ResourceSettings {
            capacity: 9,
            ..image.settings
        };
        (image.key.clone(), ResourceImage { settings, ..image })
    });
    records.resources.definitions = BTreeMap::from_iter(changed);
    owned.write(records).await;

    let kept = "with written as (
            select convert_from(settings, 'UTF8')::json as settings
            from job
            union all
            select convert_from(settings, 'UTF8')::json
            from resource
        )
        select count(*)
        from written
        where settings ->> 'color' = '7'
            and settings ->> 'max_runtime' is null
            and coalesce(settings ->> 'capacity', '9') = '9'";
    assert_eq!(owned.count(kept).await, 2);
}
