//! Tasks that hold resources: the capacities are kept, no slot idles that could be used, and the
//! text finds its token.

use super::create;
use crate::harness::{
    conversation::{Conversation, WAIT_TIMEOUT},
    postgres::{connect, value},
    server::{Server, Setup},
    work::{Work, sleep, sql},
};
use rallypoint_client::api::{self, GetResourceRequest, ResourceMode, ResourceUse, blocker::Kind};
use std::collections::BTreeMap;
use tokio::time::timeout;

const TASKS: usize = 500;
const KEYS: usize = 20;
const POOL: i32 = 5;

fn alone(name: &str) -> ResourceUse {
    super::used(name, ResourceMode::Exclusive)
}

fn permit(name: &str) -> ResourceUse {
    super::used(name, ResourceMode::Shared)
}

fn holding(work: Work, resources: &[ResourceUse]) -> Work {
    work.with(|options| options.resources = resources.to_vec())
}

/// What ran when, in microseconds: task, start, end.
async fn attempts(scheduler: &Conversation) -> Vec<(i64, i64, i64)> {
    let done = scheduler.all_done().await;
    let ran = done.iter();
    ran.map(|one| (one.seq, one.started_us, one.ended_us))
        .collect()
}

/// The most of `spans` that hold at the same time. What ends when another one begins does not
/// overlap it.
fn most_at_once(spans: impl Iterator<Item = (i64, i64)>) -> i64 {
    let mut changes: Vec<(i64, i64)> = spans.flat_map(|(from, to)| [(from, 1), (to, -1)]).collect();
    changes.sort_unstable();
    let mut held = 0;
    let counts = changes.iter().map(|(_, change)| {
        held += change;
        held
    });
    counts.max().unwrap_or(0)
}

#[tokio::test]
async fn tasks_over_keys_and_a_pool_never_break_a_capacity_and_no_slot_idles() {
    let server = Server::with(Setup {
        slots: 8,
        ..Setup::default()
    })
    .await;
    create(&server.client, "key/*", 1).await;
    create(&server.client, "pool", POOL).await;
    let scheduler = server.open(api::SchedulerSettings::default()).await;
    let key = |task: usize| (task * 7 + task / 11) % KEYS;
    let resources = |task: usize| [alone(&format!("key/{}", key(task))), permit("pool")];
    let task = |task: usize| holding(sleep(4), &resources(task));
    scheduler.submit((0..TASKS).map(task)).await;
    let ran = timeout(WAIT_TIMEOUT, attempts(&scheduler))
        .await
        .expect("in time");
    assert_eq!(ran.len(), TASKS);
    let mut by_key: BTreeMap<usize, Vec<(i64, i64)>> = BTreeMap::new();
    for (seq, from, to) in &ran {
        let of = by_key.entry(key(*seq as usize - 1)).or_default();
        of.push((*from, *to));
    }
    for (key, spans) in by_key {
        assert_eq!(most_at_once(spans.into_iter()), 1, "key {key}");
    }
    let all = ran.iter().map(|(_, from, to)| (*from, *to));
    assert_eq!(most_at_once(all), i64::from(POOL));
    // The log says the same, of what was held.
    let broken = "with held as (
          select granted_at as from_at, ended_at as to_at,
                 jsonb_array_elements(asks_for::jsonb->'wants')->>'name' as name
          from rallypoint_log.claims),
        changes as (
          select name, from_at as at, 1 as change from held
          union all select name, to_at, -1 from held),
        swept as (
          select name, sum(change) over (partition by name order by at, change) as used
          from changes)
        select count(*)::text || ' ' || (select count(*) from held)
        from swept where used > case name when 'pool' then 5 else 1 end";
    let mut journal = connect(&server.journal).await;
    let swept = value(&mut journal, broken).await;
    assert_eq!(swept, format!("0 {}", 2 * TASKS));
}

#[tokio::test]
async fn a_text_finds_its_token_and_no_later_one_does() {
    let server = Server::with(Setup {
        slots: 1,
        ..Setup::default()
    })
    .await;
    create(&server.client, "orders", 1).await;
    let settings = api::SchedulerSettings {
        session_reset: api::SessionReset::Scheduler.into(),
        ..Default::default()
    };
    let scheduler = server.open(settings).await;
    let text = "select coalesce(nullif(current_setting('rallypoint.token', true), ''), 'none') t";
    let asking = || sql(text).rows(1);
    let orders = [alone("orders")];
    let works = [
        asking().order(1),
        holding(asking(), &orders).order(2),
        asking().order(3),
        holding(asking(), &orders).order(4),
    ];
    scheduler.submit(works).await;
    let done = scheduler.all_done().await;
    let rows = done
        .iter()
        .map(|one| one.result.as_ref().expect("a result"));
    let rows: Vec<String> = rows.map(|result| result.rows_json.clone()).collect();
    let token = |row: &str| {
        row.split('"')
            .nth(3)
            .and_then(|text| text.parse::<i64>().ok())
    };
    let tokens: Vec<Option<i64>> = rows.iter().map(|row| token(row)).collect();
    assert!(tokens[1] > Some(0) && tokens[3] > tokens[1], "{rows:?}");
    assert_eq!((tokens[0], tokens[2]), (None, None), "{rows:?}");
}

#[tokio::test]
async fn a_task_says_what_it_waits_for_and_a_resource_who_holds_it() {
    let server = Server::start().await;
    let client = &server.client;
    create(client, "orders", 1).await;
    let scheduler = server.open(api::SchedulerSettings::default()).await;
    let mut gate = server.gate().await;
    let orders = [alone("orders")];
    let waiting = holding(sql("select 1"), &orders);
    scheduler
        .submit([holding(gate.task(), &orders), waiting, sql("select 2")])
        .await;
    gate.reached_by(1).await;
    let request = GetResourceRequest {
        name: "orders".into(),
        page_size: 0,
    };
    let seen = client.get_resource(request).await.expect("it is there");
    let held = &seen.holds[0];
    assert_eq!((held.handle.as_str(), held.seq), (scheduler.handle(), 1));
    assert!(held.lease_until.is_none() && held.token > 0);
    assert_eq!(seen.resource.expect("it").waiting_tasks, 1);
    let [waiting] = &seen.waiting_tasks[..] else {
        panic!("{:?}", seen.waiting_tasks);
    };
    assert_eq!(
        (waiting.handle.as_str(), waiting.seq),
        (scheduler.handle(), 2)
    );
    assert!(waiting.place > held.claim && !waiting.is_kept);
    let refused = client.release_claim(held.claim, held.token).await;
    assert_eq!(super::reason(&refused.unwrap_err()), "CLAIM_OF_TASK");
    let answer = scheduler.scheduler.explain(2).await.expect("answered");
    let Some(Kind::Resources(wanted)) = &answer.blockers[0].kind else {
        panic!("{answer:?}");
    };
    let holder = &wanted.wanted[0].holders[0];
    assert_eq!(
        (holder.handle.as_str(), holder.seq),
        (scheduler.handle(), 1)
    );
    let text = &answer.blockers[0].text;
    let said = format!(
        "it waits for \"orders\" for itself alone, held by task {}/1 (place 1 among the claims and tasks in line)",
        scheduler.handle()
    );
    assert_eq!(text, &said);
    let view = scheduler.task(2).await;
    let options = view.task.and_then(|task| task.options);
    let known = options.expect("its options").resources;
    assert_eq!((known.len(), &known[0].name), (1, &orders[0].name));
    gate.open().await;
    let done = scheduler.all_done().await;
    assert_eq!(done.len(), 3);
}

#[tokio::test]
async fn a_resource_that_is_not_there_is_refused_with_its_field() {
    let server = Server::start().await;
    let scheduler = server.open(api::SchedulerSettings::default()).await;
    let unknown = holding(sql("select 1"), &[alone("nowhere")]);
    let refused = scheduler.try_submit([sql("select 1"), unknown]).await;
    let error = refused.unwrap_err();
    assert_eq!(super::reason(&error), "RESOURCE_NOT_FOUND");
    let field = "tasks[1].options.resources: no resource \"nowhere\"";
    assert!(error.to_string().contains(field), "{error}");
}
