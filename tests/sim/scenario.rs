//! Which life is lived: its seed, its length, and what may go wrong in it; and the shortest one
//! that still breaks a rule.

/// What goes wrong, beside what callers do. A life can be lived again without some of it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// Batches of unknown outcome.
    Fates = 1,
    /// Other owners.
    Owners = 2,
    Crashes = 4,
    /// Targets that come and go.
    Targets = 8,
    /// Owners that do not know that they were overtaken.
    Zombies = 16,
}

const FAULTS: [Fault; 5] = [
    Fault::Fates,
    Fault::Owners,
    Fault::Crashes,
    Fault::Targets,
    Fault::Zombies,
];
/// Each is one to three happenings.
pub(crate) const STEPS: u64 = 160;

/// What a life follows from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scenario {
    pub seed: u64,
    pub steps: u64,
    /// The faults that do not happen, as a sum.
    pub without: u64,
}

impl Scenario {
    /// A whole one.
    pub(crate) fn of(seed: u64) -> Scenario {
        Scenario {
            seed,
            steps: STEPS,
            without: 0,
        }
    }

    pub(crate) fn has(&self, fault: Fault) -> bool {
        self.without & fault as u64 == 0
    }

    /// The shortest life, with the fewest faults, that still breaks a rule.
    pub(crate) fn shrunk(self, breaks: impl Fn(Scenario) -> bool) -> Scenario {
        let mut life = self.shortened(&breaks);
        for fault in FAULTS {
            let without = Scenario {
                without: life.without | fault as u64,
                ..life
            };
            if breaks(without) {
                life = without;
            }
        }
        life.shortened(&breaks)
    }

    fn shortened(self, breaks: &impl Fn(Scenario) -> bool) -> Scenario {
        let (mut life, mut cut) = (self, self.steps / 2);
        while cut > 0 {
            let shorter = Scenario {
                steps: life.steps - cut,
                ..life
            };
            match breaks(shorter) {
                true => {
                    life = shorter;
                    cut = cut.min(life.steps / 2);
                }
                false => cut /= 2,
            }
        }
        life
    }
}

#[test]
fn a_life_shrinks_to_what_breaks_the_rule() {
    let breaks = |life: Scenario| life.steps >= 37 && life.has(Fault::Crashes);
    let wanted = Scenario {
        seed: 3,
        steps: 37,
        without: 1 + 2 + 8 + 16,
    };
    assert_eq!(Scenario::of(3).shrunk(breaks), wanted);
}
