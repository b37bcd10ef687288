//! What is taken from a file, and what is said of one that makes no sense.

use super::*;
use crate::core::Isolation;
use std::{collections::BTreeMap, fs};
use tempfile::TempDir;

/// A folder with this file, a password and a URL.
struct Folder(TempDir);

impl Folder {
    fn with(text: &str) -> Self {
        let folder = Folder(TempDir::new().expect("a directory"));
        folder.write("password", "hunter2\n");
        folder.write("url", "postgres://u:hunter2@h/d\n");
        folder.write("empty", "\n");
        folder.write("rallypoint.toml", text);
        folder
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.path().join(name), text).expect("written");
    }

    fn read(&self) -> Result<Vec<Target>, Faults> {
        self.read_by(true)
    }

    /// By a server whose callers may say of which namespace they are, or may not.
    fn read_by(&self, namespaces: bool) -> Result<Vec<Target>, Faults> {
        let file = ConfigFile {
            path: self.0.path().join("rallypoint.toml"),
            slots: 8,
            session_idle: Duration::from_secs(300),
            others: BTreeSet::from(["taken".into()]),
            namespaces,
            certificates: true,
        };
        Ok(file.read()?.targets)
    }
}

/// What is said of a file that must be wrong.
fn said(text: &str) -> String {
    let said = Folder::with(text).read().expect_err(text).to_string();
    assert!(!said.contains("hunter2"), "{said}");
    said
}

#[test]
fn a_file_describes_targets_with_their_secrets_and_options() {
    let folder = Folder::with(
        r#"
        [targets.app]
        url = "postgres://app@db/app"
        password_file = "password"
        slots = 16
        session_idle = "1m 30s"
        session_reset = "task"
        roles = ["reader", "writer"]
        defaults.read_only = true
        defaults.isolation = "repeatable read"
        defaults.search_path = ["a", "b c"]
        defaults.statement_timeout = "30s"
        defaults.role = "reader"

        [targets.app.logins.sales]
        user = "sales"
        password_file = "password"

        [targets.app.watchdog]
        user = "watch"

        [targets.reports]
        url_file = "url"
        "#,
    );
    let targets = folder.read().expect("it makes sense");
    let [app, reports] = &*targets else {
        panic!("{targets:?}");
    };
    assert_eq!((&*app.name, app.slots), ("app", 16));
    let app_login: Login = "postgres://app:hunter2@db/app".parse().expect("a login");
    assert_eq!(app.login, app_login);
    assert_eq!(app.session_idle, Duration::from_secs(90));
    assert_eq!(app.session_reset, SessionReset::Task);
    assert!(app.roles.iter().eq(["reader", "writer"]));
    let defaults = SessionOptions {
        read_only: Some(true),
        isolation: Some(Isolation::RepeatableRead),
        search_path: vec!["a".into(), "b c".into()],
        statement_timeout: Some(Duration::from_secs(30)),
        role: Some("reader".into()),
        due: None,
    };
    assert_eq!(app.defaults, defaults);
    let sales = "postgres://sales:hunter2@db/app".parse().expect("a login");
    assert_eq!(app.logins, BTreeMap::from([("sales".into(), sales)]));
    let watch: Login = "postgres://watch@db/app".parse().expect("a login");
    assert_eq!(app.watchdog, Some(watch));
    let other: Login = "postgres://u:hunter2@h/d".parse().expect("a login");
    assert_eq!(reports.login, other);
    assert_eq!((reports.slots, reports.session_idle.as_secs()), (8, 300));
    assert_eq!(reports.session_reset, SessionReset::Scheduler);
    assert!(!format!("{targets:?}").contains("hunter2"));
}

#[test]
fn a_wrong_key_is_named_with_its_line_and_the_one_that_was_meant() {
    let said = said("[targets.app]\nurl = \"postgres://u@h/d\"\npasword_file = \"x\"\n");
    assert!(said.contains("line 3"), "{said}");
    assert!(said.contains("did you mean `password_file`?"), "{said}");
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    let said = said(
        r#"
        [targets.app]
        url = "postgres://u:hunter2@h/d"
        password_file = "password"
        slots = 0
        session_idle = "1ms"
        roles = ["none"]
        defaults.role = "boss"
        [targets.taken]
        url = "postgres://u@h/d"
        [targets.none]
        [targets.two]
        url = "postgres://u@h/d"
        url_file = "url"
        [targets.files]
        url = "postgres://u@h/d"
        password_file = "nowhere"
        [targets.folder]
        url = "postgres://u@h/d"
        password_file = "."
        [targets.fine]
        url = "postgres://u@h/d"
        slots = 10001
        defaults.statement_timeout = "1500us"
        [targets.blank]
        url = "postgres://u@h/d"
        password_file = "empty"
        [targets.alone.logins.a]
        user = "a"
        [targets.alone]
        url = "postgres://u@h/d"
        [targets."a b"]
        url = "postgres://u@h/d"
        defaults.search_path = ['"a b"', "public"]
        "#,
    );
    for fault in [
        "line 4: targets.app.password_file: the URL in `url` also holds a password",
        "line 5: targets.app.slots: must be 1 to 10000",
        "targets.app.session_idle",
        "targets.app.roles",
        "line 8: targets.app.defaults.role",
        "targets.taken: `--target`",
        "line 11: targets.none.url: missing",
        "targets.two.url_file",
        "targets.files.password_file",
        "targets.folder.password_file",
        "not a regular file",
        "targets.fine.slots",
        "line 24: targets.fine.defaults.statement_timeout: Postgres counts whole milliseconds",
        "targets.blank.password_file",
        "targets.alone.logins",
        "targets.\"a b\".defaults.search_path: at most 64 schemas, each a name",
    ] {
        assert!(said.contains(fault), "no `{fault}` in\n{said}");
    }
}

#[test]
fn a_value_of_another_form_hides_no_other_fault_and_is_no_missing_one() {
    let said = said(
        r#"
        [targets.app]
        url = ["hunter2"]
        slots = "many"
        pasword_file = "x"
        session_reset = "never"
        [targets.app.watchdog]
        [targets.dw]
        url = "mysql://u:hunter2@h/d"
        [identity]
        token_file = 3
        [[access]]
        identities = ["token:etl", "user:x"]
        role = "boss"
        [[acess]]
        "#,
    );
    let expected = [
        "line 3: targets.app.url: expected a string",
        "line 4: targets.app.slots: expected a whole number",
        "line 5: targets.app: unknown key `pasword_file`: did you mean `password_file`?",
        "line 6: targets.app.session_reset: expected `task` or `scheduler`",
        "line 7: targets.app.watchdog.user: missing: write `user = \"app\"`",
        "line 9: targets.dw.url: not a URL of Postgres",
        "line 11: identity.token_file: expected a",
        "line 12: access[1].namespaces: missing: write `namespaces = [\"*\"]`",
        "line 13: access[1].identities: an identity begins with",
        "line 14: access[1].role: expected one of `reader`",
        "line 15: unknown key `acess`: did you mean `access`?",
    ];
    assert_eq!(said.lines().count(), expected.len(), "{said}");
    for (line, expected) in said.lines().zip(expected) {
        assert!(line.contains(expected), "no `{expected}` in\n{said}");
    }
}

#[test]
fn a_login_that_no_task_can_ever_use_is_an_error() {
    let of = |namespaces: &[&str]| {
        let login = |one: &&str| format!("logins.{one}.user = \"u\"\n");
        let logins: String = namespaces.iter().map(login).collect();
        let url = "url = \"postgres://u@h/d\"\nwatchdog.user = \"w\"";
        Folder::with(&format!("[targets.app]\n{url}\n{logins}"))
    };
    let said = of(&["Sales", "sales_eu", "sales"]).read().expect_err("two");
    let said = said.to_string();
    for wrong in ["Sales", "sales_eu"] {
        let fault = format!("targets.app.logins.{wrong}: no namespace is called that");
        assert!(said.contains(&fault), "{said}");
    }
    assert!(!said.contains("logins.sales:"), "{said}");
    let alone = of(&["default", "sales"]).read_by(false).expect_err("one");
    let said = alone.to_string();
    let fault = "targets.app.logins.sales: no task is ever of this namespace";
    assert!(said.contains(fault), "{said}");
    assert!(said.contains("--trusted-namespace-metadata"), "{said}");
    assert!(!said.contains("logins.default"), "{said}");
    assert!(of(&["default"]).read_by(false).is_ok());
}

#[test]
fn no_value_is_shown_wherever_it_stands() {
    for wrong in [
        "[targets]\napp = \"postgres://u:hunter2@h/d\"",
        "targets = \"hunter2\"",
        "[targets.app]\nurl = [\"hunter2\"]",
        "[targets.app]\nurl = \"mysql://u:hunter2@h/d\"",
        "[targets.app]\nurl = \"postgres://u:hunter2@/d\"",
        "[targets.app]\nurl = \"postgres://u:hunter2@h:port/d\"",
        "[targets.app]\nurl = \"postgres://u:hunter2@h/d",
        "[targets.app]\nurl = postgres://u:hunter2@h/d",
        "[targets.app]\nslots = \"hunter2\"",
        "[targets.app]\nsession_reset = \"hunter2\"",
        "[targets.app]\nsession_idle = \"hunter2\"",
        "[targets.app]\ndefaults.isolation = \"hunter2\"",
        "[targets.app]\nurl = \"postgres://u@h/d\"\nroles = \"hunter2\"",
        "[targets.app]\nurl = \"\\hunter2\"",
    ] {
        said(wrong);
    }
}

#[test]
fn an_isolation_is_written_as_in_sql_or_as_on_the_command_line() {
    for level in ["repeatable read", "repeatable-read", "Repeatable-Read"] {
        let target = "[targets.app]\nurl = \"postgres://u@h/d\"";
        let folder = Folder::with(&format!("{target}\ndefaults.isolation = \"{level}\"\n"));
        let targets = folder.read().expect(level);
        let isolation = targets[0].defaults.isolation;
        assert_eq!(isolation, Some(Isolation::RepeatableRead), "{level}");
    }
}

#[test]
fn the_file_in_the_documents_has_the_right_form() {
    let page = include_str!("../../../docs/operations.md");
    let (_, file) = page.split_once("```toml\n").expect("a file");
    let (file, _) = file.split_once("```").expect("its end");
    let mut faults = Faults::of("rallypoint.toml".as_ref());
    let contents = contents::parse(file, &mut faults);
    let contents = faults.into_result(contents).expect("it is good");
    assert_eq!(contents.targets.len(), 1);
}

#[test]
fn a_file_that_a_url_names_has_to_be_there_and_a_number_in_its_range() {
    let said = said(
        r#"
        [targets.tls]
        url = "postgres://u@h/d?sslmode=verify-full&sslrootcert=/nowhere"
        [targets.hash]
        url = "postgres://u:hunt#er2@h:5/d"
        [targets.few]
        url = "postgres://u@h/d"
        slots = -1
        "#,
    );
    for fault in [
        "targets.tls.url: sslrootcert: cannot read /nowhere",
        "targets.hash.url: not a URL: invalid port number: write it like postgres://user:password@host",
        "encoded (`#` is `%23`)",
        "targets.few.slots: expected a whole number, and found one that is too small or too large",
    ] {
        assert!(said.contains(fault), "no `{fault}` in\n{said}");
    }
}
