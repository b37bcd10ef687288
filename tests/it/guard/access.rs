//! Who may use the guard, and that installing it again changes nothing.

use super::{Scene, run};
use crate::harness::{
    postgres::{POSTGRES, prepare_target, value},
    process::PROGRAM,
};
use rallypoint::postgres::{SUPERUSER, TARGET};
use std::{
    fs,
    process::{Command, Output},
};

const SHOW: &str = "select rallypoint.guard('orders', 2)";

async fn login(scene: &Scene, name: &str) {
    let mut administrator = scene.login(SUPERUSER).await;
    let made = format!(
        "create role {name} login; grant connect on database {} to {name}",
        scene.database
    );
    run(&mut administrator, &made).await.expect("made");
}

async fn drop_login(scene: &Scene, name: &str) {
    let mut administrator = scene.login(SUPERUSER).await;
    let dropped = format!("drop owned by {name}; drop role {name}");
    run(&mut administrator, &dropped).await.expect("dropped");
}

#[tokio::test]
async fn a_login_shows_tokens_and_changes_nothing_else() {
    let scene = Scene::new();
    login(&scene, "guard_stranger").await;
    let mut writer = scene.session().await;
    run(&mut writer, SHOW).await.expect("it may");
    for forbidden in [
        "delete from rallypoint.guard_token",
        "update rallypoint.guard_token set token = 1",
        "select * from rallypoint.guard_token",
        "create or replace function rallypoint.guard(text, int8, bool) returns int8 language sql as 'select 1'",
        "set role rallypoint_guard",
    ] {
        let refused = run(&mut writer, forbidden).await;
        assert_eq!(refused.expect_err(forbidden).0, "42501", "{forbidden}");
    }
    let mut stranger = scene.login("guard_stranger").await;
    let refused = run(&mut stranger, SHOW).await.expect_err("not let in");
    assert_eq!(refused.0, "42501");
    drop(stranger);
    drop_login(&scene, "guard_stranger").await;
}

#[tokio::test]
async fn what_a_writer_puts_ahead_of_the_catalog_does_not_reach_the_guard() {
    let scene = Scene::new();
    let mut writer = scene.session().await;
    let ahead = "create schema ahead;
        create function ahead.never(int8, int8) returns bool language sql as 'select false';
        create operator ahead.< (leftarg = int8, rightarg = int8, function = ahead.never);
        create table pg_temp.guard_token (resource text, token int8);
        set search_path = ahead, pg_temp, pg_catalog";
    run(&mut writer, ahead).await.expect("made");
    run(&mut writer, SHOW).await.expect("the first one");
    let stale = "select rallypoint.guard('orders', 1)";
    assert_eq!(
        run(&mut writer, stale).await.expect_err("2 was seen").0,
        "RP003"
    );
}

#[tokio::test]
async fn installing_it_again_keeps_what_was_seen_and_who_was_let_in() {
    let scene = Scene::new();
    login(&scene, "guard_marker").await;
    let mut writer = scene.session().await;
    run(&mut writer, SHOW).await.expect("the first one");
    scene.install(&["--login", TARGET]);
    prepare_target(&POSTGRES, &scene.database, &["guard_marker"]);
    scene.install(&["--login", TARGET]);
    let seen = "select rallypoint.guard('orders', 1)";
    assert_eq!(
        run(&mut writer, seen).await.expect_err("2 was seen").0,
        "RP003"
    );
    run(&mut writer, SHOW).await.expect("still let in");
    // Markers and the guard are two things.
    let mut other = scene.login("guard_marker").await;
    let asked = "select rallypoint.marker_of('x', 1)";
    run(&mut other, asked).await.expect("its own");
    assert_eq!(
        run(&mut other, SHOW).await.expect_err("not its own").0,
        "42501"
    );
    assert_eq!(
        run(&mut writer, asked).await.expect_err("not its own").0,
        "42501"
    );
    drop(other);
    drop_login(&scene, "guard_marker").await;
}

fn install(options: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    let command = command.args(["guard", "install"]).args(options);
    command.output().expect("the program runs")
}

#[tokio::test]
async fn a_target_of_the_file_is_named_and_its_logins_and_roles_let_in() {
    let scene = Scene::new();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("rallypoint.toml");
    let described = |user: &str| {
        let url = POSTGRES.url_for(&scene.database, user);
        let more =
            "roles = ['guard_role']\nlogins.sales.user = 'guard_sales'\nwatchdog.user = 'app'";
        fs::write(&file, format!("[targets.shop]\nurl = '{url}'\n{more}\n")).expect("written");
    };
    let path = file.display().to_string();
    let named = ["--target", "shop", "--config", &path];
    for name in ["guard_role", "guard_sales"] {
        login(&scene, name).await;
    }
    // The login of the tasks may not install; an administrator may.
    described(TARGET);
    let refused = install(&named);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("permission denied"), "{said}");
    assert!(said.contains("--print"), "{said}");
    let url = POSTGRES.url_for(&scene.database, SUPERUSER);
    let installed = install(&[&named[..], &["--url", &url]].concat());
    let said = String::from_utf8_lossy(&installed.stdout).into_owned();
    assert_eq!(
        said,
        "the guard is installed, for app, guard_role, guard_sales\n"
    );
    for (name, token) in [("guard_role", 3), ("guard_sales", 4)] {
        let mut writer = scene.login(name).await;
        let show = format!("select rallypoint.guard('orders', {token})");
        run(&mut writer, &show).await.expect(name);
    }
    // What is printed does the same, run by a DBA.
    let mut administrator = scene.login(SUPERUSER).await;
    let printed = install(&[&named[..], &["--print"]].concat());
    let printed = String::from_utf8_lossy(&printed.stdout).into_owned();
    run(&mut administrator, &printed).await.expect("it runs");
    run(&mut administrator, "reset search_path")
        .await
        .expect("set");
    let highest = "select max(token)::text from rallypoint.guard_token";
    assert_eq!(value(&mut administrator, highest).await, "4");
    for name in ["guard_role", "guard_sales"] {
        drop_login(&scene, name).await;
    }
    let unknown = install(&["--target", "shoes", "--config", &path]);
    let said = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert_eq!(unknown.status.code(), Some(2), "{said}");
    assert!(said.contains("it has: shop"), "{said}");
}
