//! What the executor reports of a statement that runs to its end.

use super::fixture::{Fixture, Task, failed, json, sql, succeeded, token, with_params};
use rallypoint::core::{Report, model::limits::RESULT_BYTES};
use sqlx::AssertSqlSafe;

#[tokio::test]
async fn a_success_reports_the_rows_of_the_last_statement() {
    let mut fixture = Fixture::new(1).await;
    let text = "create table t (a int); insert into t select generate_series(1, 5);
        update t set a = 0 where a > 2";
    let seq = fixture.start(sql(text));
    let ended = fixture.ended(seq).await;
    assert_eq!(
        (
            ended.slot,
            ended.backend_pid > 0,
            ended.ended >= ended.started
        ),
        (1, true, true)
    );
    let result = succeeded(ended.report);
    assert_eq!(
        (result.rows_affected, json(&result), result.truncated),
        (3, "", false)
    );
    assert_eq!(fixture.value("select sum(a) from t").await, "3");
    assert_eq!(fixture.result(sql("")).await.rows_affected, 0);
}

#[tokio::test]
async fn an_error_reports_its_sqlstate_and_undoes_its_text() {
    let mut fixture = Fixture::new(1).await;
    let report = fixture.text("create table t (a int); select 1 / 0").await;
    assert_eq!(failed(report), ("22012".into(), false));
    assert_eq!(
        failed(fixture.text("select * from t").await),
        ("42P01".into(), false)
    );
    let raise = "do $$ begin
        raise exception 'no' using errcode = '40001', detail = 'why', hint = 'how';
    end $$";
    let Report::Failed { error, transient } = fixture.text(raise).await else {
        panic!("it fails")
    };
    assert!(
        transient && error.message.starts_with("no\ndetail: why\nhint: how"),
        "{error:?}"
    );
    assert_eq!(fixture.value("select 1").await, "1");
}

#[tokio::test]
async fn text_that_must_not_run_in_a_transaction_runs() {
    let mut fixture = Fixture::new(1).await;
    assert!(matches!(
        fixture.text("create table t (a int)").await,
        Report::Succeeded(_)
    ));
    assert!(matches!(
        fixture.text("vacuum t").await,
        Report::Succeeded(_)
    ));
    assert!(matches!(
        fixture
            .text("insert into t values (1); commit; insert into t values (2)")
            .await,
        Report::Succeeded(_)
    ));
    let procedure = "create procedure p() language plpgsql as
        $$ begin insert into t values (3); commit; end $$";
    assert!(matches!(
        fixture.text(procedure).await,
        Report::Succeeded(_)
    ));
    assert!(matches!(
        fixture.text("call p()").await,
        Report::Succeeded(_)
    ));
    assert_eq!(
        fixture
            .value("select string_agg(a::text, ',' order by a) from t")
            .await,
        "1,2,3"
    );
}

#[tokio::test]
async fn parameters_arrive_as_they_are_in_the_types_that_postgres_infers() {
    let mut fixture = Fixture::new(1).await;
    fixture
        .result(sql("create table t (a int, b text, c date, d jsonb)"))
        .await;
    let insert = "insert into t values ($1, $2, $3, $4) returning *";
    let params = r#"["42", "it's \\ \"this\" $1 \n; drop table t", null, "{\"k\": [1]}"]"#;
    let result = fixture.result(with_params(insert, params)).await;
    let expected =
        r#"[{"a":42,"b":"it's \\ \"this\" $1 \n; drop table t","c":null,"d":{"k": [1]}}]"#;
    assert_eq!((result.rows_affected, json(&result)), (1, expected));
    assert_eq!(
        json(
            &fixture
                .result(with_params("select 1 as a -- no semicolon", "[]"))
                .await
        ),
        r#"[{"a":1}]"#
    );
}

#[tokio::test]
async fn arrays_json_and_nulls_are_parameters_like_any() {
    let mut fixture = Fixture::new(1).await;
    for (text, params, expected) in [
        (
            "select sum(a) as v from unnest($1::int[]) a",
            r#"["{1,2,null,4}"]"#,
            r#"[{"v":7}]"#,
        ),
        (
            "select $1::jsonb #> $2 as v",
            r#"["{\"a\": [1, {\"b\": null}]}", "{a,1}"]"#,
            r#"[{"v":{"b": null}}]"#,
        ),
        (
            "select $1::text is null as a, coalesce($2::text, 'none') as b",
            r#"[null, ""]"#,
            r#"[{"a":true,"b":""}]"#,
        ),
        (
            "select 1 as v where 2 = any($1)",
            r#"["{1,2}"]"#,
            r#"[{"v":1}]"#,
        ),
        ("select 1 as v", "[]", r#"[{"v":1}]"#),
    ] {
        let result = fixture.result(with_params(text, params)).await;
        assert_eq!(json(&result), expected, "{text}");
    }
}

#[tokio::test]
async fn a_procedure_that_commits_takes_parameters() {
    let mut fixture = Fixture::new(1).await;
    fixture.result(sql("create table t (a int)")).await;
    let procedure = "create procedure p(n int, inout total int default 0) language plpgsql as $$
        begin
            for i in 1..n loop insert into t values (i); commit; end loop;
            select sum(a) into total from t;
        end $$";
    fixture.result(sql(procedure)).await;
    let result = fixture
        .result(with_params("call p($1, null)", r#"["4"]"#))
        .await;
    assert_eq!(json(&result), r#"[{"total":10}]"#);
    assert_eq!(fixture.value("select count(*) from t").await, "4");
}

#[tokio::test]
async fn values_of_parameters_are_not_shown_with_the_statement() {
    let mut fixture = Fixture::new(1).await;
    let text = "select pg_sleep(3600), $1::text";
    let seq = fixture.start(with_params(text, r#"["open sesame"]"#));
    let pid = fixture.asleep().await;
    let mut observer = fixture.session().await;
    let query = format!("select query from pg_stat_activity where pid = {pid}");
    let shown: String = sqlx::query_scalar(AssertSqlSafe(query))
        .fetch_one(&mut observer)
        .await
        .expect("a look");
    assert!(
        shown.starts_with(text) && !shown.contains("sesame"),
        "{shown}"
    );
    fixture.executor.stop(token(seq));
    assert_eq!(fixture.ended(seq).await.report, Report::Stopped);
}

#[tokio::test]
async fn parameters_that_do_not_fit_fail_and_change_nothing() {
    let mut fixture = Fixture::new(1).await;
    fixture.result(sql("create table t (a int)")).await;
    let insert = "insert into t values ($1)";
    let insert_and_delete = "insert into t values ($1); delete from t";
    let two_inserts = "insert into t values (1); insert into t values (2)";
    for (text, params, code) in [
        (insert, r#"["1", "2"]"#, "PARAMS_INVALID"),
        (insert, "[]", "PARAMS_INVALID"),
        ("select 1", r#"["1"]"#, "PARAMS_INVALID"),
        ("select $1::int", r#"["1", "2"]"#, "PARAMS_INVALID"),
        ("select $2::int", r#"["1"]"#, "42P18"),
        (insert, r#"["x"]"#, "22P02"),
        (insert_and_delete, r#"["1"]"#, "42601"),
        (two_inserts, "[]", "42601"),
        ("vacuum t", r#"["1"]"#, "PARAMS_INVALID"),
        (
            "create table u (a int default $1)",
            r#"["1"]"#,
            "PARAMS_INVALID",
        ),
        (
            "do $$ begin perform 1; end $$",
            r#"["1"]"#,
            "PARAMS_INVALID",
        ),
        (insert, "{}", "PARAMS_INVALID"),
        ("select $1", r#"["\u0000"]"#, "BODY_NUL"),
    ] {
        let report = fixture.run(with_params(text, params)).await;
        assert_eq!(failed(report).0, code, "{text} with {params}");
    }
    let Report::Failed { error, .. } = fixture.run(with_params(two_inserts, "[]")).await else {
        panic!("two statements with parameters");
    };
    assert!(error.message.contains("tasks of their own"), "{error:?}");
    assert_eq!(failed(fixture.text("select 'a\0b'").await).0, "BODY_NUL");
    assert_eq!(fixture.value("select count(*) from t").await, "0");
}

#[tokio::test]
async fn rows_come_back_as_json_of_their_types() {
    let mut fixture = Fixture::new(1).await;
    let text = r#"select 1 as i, 9007199254740993 as big, 1.5::float8 as f, 'nan'::float8 as nan,
        1.10 as n, true as b, null::int as nothing, '{"a": 1}'::json as j, 'x"y' as t,
        array[1, 2] as list, 1 as i, '(1,2)'::point as "a ""b""""#;
    let result = fixture
        .result(Task {
            rows: 5,
            ..sql(text)
        })
        .await;
    let expected = concat!(
        r#"[{"i":1,"big":9007199254740993,"f":1.5,"nan":"NaN","n":"1.10","b":true,"#,
        r#""nothing":null,"j":{"a": 1},"t":"x\"y","list":"{1,2}","i_2":1,"a \"b\"":"(1,2)"}]"#
    );
    assert_eq!(json(&result), expected);
    let binary = "declare c binary cursor for select 34 as a, true as b; fetch all from c";
    let result = fixture
        .result(Task {
            rows: 1,
            ..sql(binary)
        })
        .await;
    assert_eq!(json(&result), r#"[{"a":"\\x00000022","b":"\\x01"}]"#);
    let result = fixture
        .result(Task {
            rows: 2,
            ..sql("select 7; select a from generate_series(1, 3) a")
        })
        .await;
    assert_eq!(
        (result.rows_affected, json(&result), result.truncated),
        (3, r#"[{"a":1},{"a":2}]"#, true)
    );
    let result = fixture
        .result(Task {
            rows: 2,
            ..sql("select 1 where false")
        })
        .await;
    assert_eq!((result.rows_affected, result.truncated), (0, false));
}

#[tokio::test]
async fn a_result_is_cut_at_its_limit_and_says_so() {
    let mut fixture = Fixture::new(1).await;
    let result = fixture
        .result(Task {
            rows: 100,
            ..sql("select repeat('x', 300000) as a from generate_series(1, 10)")
        })
        .await;
    assert!(result.truncated && result.rows_affected == 10);
    assert!(result.rows_json.len() <= RESULT_BYTES && result.rows_json.len() > 900_000);
    let rows: Vec<serde_json::Value> =
        serde_json::from_slice(&result.rows_json).expect("JSON all the same");
    assert_eq!(rows.len(), 3);
    let result = fixture
        .result(Task {
            rows: 1,
            ..sql("select repeat('x', 3000000)")
        })
        .await;
    assert_eq!((json(&result), result.truncated), ("[]", true));
}

#[tokio::test]
async fn copy_to_or_from_the_client_fails_and_the_slot_goes_on() {
    let mut fixture = Fixture::new(1).await;
    fixture.result(sql("create table t (a int)")).await;
    assert_eq!(
        failed(fixture.text("copy t from stdin").await),
        ("PROTOCOL".into(), false)
    );
    assert_eq!(
        failed(
            fixture
                .text("copy (select generate_series(1, 100000)) to stdout")
                .await
        ),
        ("PROTOCOL".into(), false)
    );
    assert_eq!(fixture.value("select count(*) from t").await, "0");
}
