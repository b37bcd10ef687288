//! Everything that is wrong with a file is said, each at its line.

use super::*;

#[test]
fn every_fault_of_a_file_is_said_with_its_line() {
    let text = "[a]\nname = 1\nlimit = \"soon\"\nwrnog = true\n\n[[a.list]]\nsize = 1\n[[a.list]]\n\
                size = \"x\"\n";
    let mut faults = Faults::of(Path::new("f.toml"));
    let mut file = Table::of_file(text, &mut faults);
    let mut table = file.table("a").expect("it is there");
    assert_eq!(table.take::<String>("name"), None);
    assert!(table.take::<Length>("limit").is_none());
    assert_eq!(table.take::<bool>("wrong"), None);
    let sizes = table.tables("list", "{ size = 1 }", |mut one| {
        let size = one.take::<i64>("size");
        one.finish();
        size
    });
    assert_eq!(sizes, [1]);
    table.fault("", "not enough");
    table.finish();
    file.finish();
    let said = faults.into_result(()).expect_err("faults").to_string();
    let lines = [
        "f.toml line 1: a: not enough",
        "f.toml line 2: a.name: expected a string, and found something else",
        "f.toml line 3: a.limit: not a length of time with its unit: write it like \"30s\", \"5m\", \"1h30m\" or \"2d\"",
        "f.toml line 4: a: unknown key `wrnog`: did you mean `wrong`?",
        "f.toml line 9: a.list[2].size: expected a whole number, and found something else",
    ];
    assert_eq!(said.lines().collect::<Vec<_>>(), lines);
}

#[derive(Debug, PartialEq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum Speed {
    Slow,
    Fast,
}

#[test]
fn a_length_of_time_without_a_unit_is_answered_by_one_with_it() {
    let mut faults = Faults::of(Path::new("f.toml"));
    let length = Table::of_file("limit = 600\n", &mut faults).take::<Length>("limit");
    assert!(length.is_none());
    let said = faults.into_result(()).expect_err("no unit").to_string();
    let expected = "limit: expected a length of time in quotes, with its unit, like \"30s\"";
    assert!(said.contains(expected), "{said}");
}

/// What a value of an enumeration is, or what is said of it.
fn speed(value: &str) -> Result<Option<Speed>, String> {
    let text = format!("speed = \"{value}\"\n");
    let mut faults = Faults::of(Path::new("f.toml"));
    let speed = Table::of_file(&text, &mut faults).take("speed");
    faults.into_result(speed).map_err(|said| said.to_string())
}

#[test]
fn a_word_of_a_few_is_read_in_any_case_and_a_slip_of_it_is_quoted() {
    assert_eq!(speed("FAST"), Ok(Some(Speed::Fast)));
    let said = speed("fasst").expect_err("a slip");
    let expected = "f.toml line 1: speed: `fasst` is none of `slow`, `fast`: did you mean `fast`?";
    assert_eq!(said, expected);
    for secret in ["hunter2", "fast-hunter2"] {
        let said = speed(secret).expect_err(secret);
        let expected = "f.toml line 1: speed: expected `slow` or `fast`, and found something else";
        assert_eq!(said, expected);
    }
}

/// What is wrong with a file that has tables of free names with a number each.
fn said(text: &str) -> Vec<String> {
    let mut faults = Faults::of(Path::new("f.toml"));
    let mut file = Table::of_file(text, &mut faults);
    for name in file.keys() {
        if let Some(mut table) = file.table_any(&name) {
            table.take::<Vec<String>>("list");
            table.take::<i64>("size");
            table.finish();
        }
    }
    file.finish();
    faults.lines().collect()
}

#[test]
fn of_a_file_that_is_no_toml_nothing_else_is_said() {
    let text = |line| format!("[a]\nsize = 1\n{line}\nsize = 2\nother = 3\n[c]\nsize = \"x\"\n");
    for broken in ["[[b", "[b", "[b c]", "size = = 2", "size 2", "size : 2"] {
        let said = said(&text(broken));
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].starts_with("f.toml line 3: "), "{said:?}");
    }
    // The end of the list is missing where the next key stands.
    let said = said(&text("list = [\"a\""));
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].starts_with("f.toml line 4: "), "{said:?}");
}

#[test]
fn a_value_without_quotes_is_named_by_its_key_and_a_secret_is_not() {
    for word in ["two", "none", "many"] {
        let said = said(&format!("[a]\nsize = {word}\n"));
        let expected = "size: expected a number, true or false, or a text in quotes";
        assert_eq!(said, [format!("f.toml line 2: {expected}")]);
    }
    for inside in ["{ url = \"x\", slots = many }", "[1, many]"] {
        let said = said(&format!("[a]\nsize = {inside}\n"));
        assert!(said[0].starts_with("f.toml line 2: expected "), "{said:?}");
    }
    for broken in ["S3cret = many", "list = [\n\"x\", S3cret = many"] {
        let said = said(&format!("[a]\n{broken}\n"));
        assert!(!said.is_empty() && !said[0].contains("S3cret"), "{said:?}");
    }
}

#[test]
fn a_key_that_is_not_plain_is_called_as_in_the_file() {
    let said = said("[\"a b\"]\nsize = \"x\"\n\"c.d\" = 1\n");
    let expected = [
        "f.toml line 2: \"a b\".size: expected a whole number",
        "f.toml line 3: \"a b\": unknown key `c.d`",
    ];
    assert_eq!(said.len(), expected.len(), "{said:?}");
    for (said, expected) in said.iter().zip(expected) {
        assert!(said.starts_with(expected), "{said}");
    }
}

#[test]
fn a_key_that_stands_twice_is_named_and_a_list_is_called_one() {
    let said = said("[a]\nsize = 1\nsize = 2\nlist = \"x\"\n[a]\n");
    assert_eq!(
        said,
        [
            "f.toml line 3: `size` stands twice: keep one of them",
            "f.toml line 5: `a` stands twice: keep one of them",
            "f.toml line 4: a.list: expected a list in brackets, as [\"a\", \"b\"], and found \
             something else",
        ]
    );
}
