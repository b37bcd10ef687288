//! Leases count as time passes, while the time of the service follows a clock that was set.

use super::{LEASE, WRITER, settings};
use crate::core::{ClaimEnd, tests::world::World};
use std::time::Duration;

/// Lets so much time pass, in steps, while the time of the service runs so many times as fast.
fn pass(w: &mut World, lead: &mut i64, time: Duration, speed: f64) {
    let step = Duration::from_millis(500);
    for _ in 0..time.as_millis() / step.as_millis() {
        let of_service = step.mul_f64(speed);
        *lead += of_service.as_micros() as i64 - step.as_micros() as i64;
        w.shard.set_lead(*lead);
        w.seconds(of_service.as_secs_f64());
    }
}

#[test]
fn a_lease_is_as_long_while_the_time_of_the_service_runs_at_another_speed() {
    for speed in [0.5, 1.0, 2.0] {
        let mut w = World::new(0);
        w.define("orders", settings(1));
        // What was before it does not count.
        let mut lead = -7_000_000;
        w.shard.set_lead(lead);
        let claims = [(); 2].map(|()| w.claim("", &[("orders", WRITER)]));
        let second = Duration::from_secs(1);
        pass(&mut w, &mut lead, LEASE - second, speed);
        assert_eq!(claims.map(|no| w.end(no)), [None; 2], "{speed}");
        w.renew(claims[0]).expect("in time");
        pass(&mut w, &mut lead, second, speed);
        let abandoned = Some(ClaimEnd::Abandoned);
        assert_eq!(claims.map(|no| w.end(no)), [None, abandoned], "{speed}");
        pass(&mut w, &mut lead, LEASE - 2 * second, speed);
        assert_eq!(w.end(claims[0]), None, "{speed}");
        pass(&mut w, &mut lead, second, speed);
        assert_eq!(w.end(claims[0]), Some(ClaimEnd::Expired), "{speed}");
    }
}
