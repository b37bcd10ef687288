//! Readers that pass the writers in line.

use super::{READER, WRITER, settings};
use crate::core::{ResourceSettings, tests::world::World};

#[test]
fn readers_that_are_preferred_pass_the_writers_in_line() {
    let mut w = World::new(0);
    let preferred = ResourceSettings {
        reader_preferred: true,
        ..settings(2)
    };
    w.define("orders", preferred);
    let claims = [READER, WRITER, READER, READER].map(|mode| w.claim("", &[("orders", mode)]));
    assert_eq!(
        w.holds(claims),
        [1, 3],
        "past the writer, as many as there are permits"
    );
    w.give_back(1);
    assert_eq!(w.holds(claims), [3, 4]);
    w.give_back(3);
    let late = w.claim("", &[("orders", READER)]);
    w.give_back(4);
    assert_eq!(w.holds([2, late]), [late]);
    w.give_back(late);
    assert_eq!(w.holds([2]), [2], "with no reader left");
    let waiting = [WRITER, READER].map(|mode| w.claim("", &[("orders", mode)]));
    w.crash();
    w.give_back(2);
    assert_eq!(
        w.holds(waiting),
        [waiting[1]],
        "readers first, though later"
    );
}
