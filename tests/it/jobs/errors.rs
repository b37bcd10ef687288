//! What is wrong with a job is said with its field.

use super::*;
use rallypoint_client::api::{DeleteJobRequest, RunClaims, UpdateJobRequest};

async fn refused(client: &Client, settings: JobSettings) -> Error {
    let request = CreateJobRequest {
        name: "a".into(),
        settings: Some(settings),
        validate_only: false,
    };
    client.create_job(request).await.unwrap_err()
}

#[tokio::test]
async fn a_bad_step_and_a_bad_schedule_are_refused_with_their_fields() {
    let server = Server::start().await;
    let client = &server.client;
    let nowhere = sql("select 1").on("nowhere").order(1);
    let error = refused(client, job(60, [sql("select 1").order(1), nowhere])).await;
    assert_eq!(reason(&error), "TARGET_UNKNOWN");
    assert!(
        error.to_string().contains("settings.steps[1].sql.target"),
        "{error}"
    );
    let elsewhere = JobSettings {
        claims: Some(RunClaims {
            target: "nowhere".into(),
        }),
        ..job(60, [])
    };
    let error = refused(client, elsewhere).await;
    let fields: Vec<_> = error.violations.iter().map(|(field, _)| &**field).collect();
    assert_eq!(fields, ["settings.claims.target"], "{error}");
    let cron = |text: &str| JobSettings {
        schedule: Some(Schedule {
            rule: Some(Rule::Cron(text.into())),
            ..Schedule::default()
        }),
        ..job(60, [sql("select 1").order(1)])
    };
    let error = refused(client, cron("0 0 31 2 *")).await;
    assert_eq!(reason(&error), "SCHEDULE_INVALID");
    assert!(
        error.to_string().contains("settings.schedule.cron"),
        "{error}"
    );
    let error = refused(client, JobSettings::default()).await;
    assert!(error.to_string().contains("settings.schedule"), "{error}");
    let after = Schedule {
        rule: Some(Rule::After("nobody".into())),
        ..Schedule::default()
    };
    let follower = JobSettings {
        schedule: Some(after),
        ..job(60, [sql("select 1").order(1)])
    };
    let error = refused(client, follower).await;
    assert!(error.to_string().contains("schedule.after"), "{error}");
}

#[tokio::test]
async fn a_change_needs_the_etag_it_names_and_what_is_not_there_is_not_found() {
    let server = Server::start().await;
    let client = &server.client;
    create(client, "a", job(600, [sql("select 1").order(1)])).await;
    let update = |etag: &str| UpdateJobRequest {
        name: "a".into(),
        settings: Some(job(300, [sql("select 1").order(1)])),
        etag: etag.into(),
    };
    let error = client.update_job(update("7")).await.unwrap_err();
    assert_eq!(reason(&error), "JOB_CHANGED");
    let updated = client.update_job(update("1")).await.expect("its etag");
    assert_eq!(updated.job.expect("it").etag, "2");
    let name = "b".to_owned();
    let error = client.get_job(GetJobRequest { name }).await.unwrap_err();
    assert_eq!(reason(&error), "JOB_NOT_FOUND");
    let request = DeleteJobRequest {
        name: "a".into(),
        etag: String::new(),
    };
    client.delete_job(request).await.expect("it is there");
    let name = "a".to_owned();
    let error = client.get_job(GetJobRequest { name }).await.unwrap_err();
    assert_eq!(reason(&error), "JOB_NOT_FOUND");
}
