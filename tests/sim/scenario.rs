//! What is simulated: a seed, a length, and what may go wrong; and the shortest one
//! that still breaks a rule.

/// What goes wrong, beside what callers do. A scenario can be repeated without some of it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// Batches of unknown outcome.
    UnknownOutcomes = 1,
    /// Other owners.
    Owners = 2,
    Crashes = 4,
    /// Targets that come and go.
    Targets = 8,
    /// Owners that do not know that they were overtaken.
    Zombies = 16,
}

const FAULTS: [Fault; 5] = [
    Fault::UnknownOutcomes,
    Fault::Owners,
    Fault::Crashes,
    Fault::Targets,
    Fault::Zombies,
];
/// Each is one to three happenings.
pub(crate) const STEPS: u64 = 160;

/// What a scenario follows from.
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

    /// The shortest scenario, with the fewest faults, that still breaks a rule.
    pub(crate) fn shrunk(self, breaks: impl Fn(Scenario) -> bool) -> Scenario {
        let mut scenario = self.shortened(&breaks);
        for fault in FAULTS {
            let without = Scenario {
                without: scenario.without | fault as u64,
                ..scenario
            };
            if breaks(without) {
                scenario = without;
            }
        }
        scenario.shortened(&breaks)
    }

    fn shortened(self, breaks: &impl Fn(Scenario) -> bool) -> Scenario {
        let (mut scenario, mut cut) = (self, self.steps / 2);
        while cut > 0 {
            let shorter = Scenario {
                steps: scenario.steps - cut,
                ..scenario
            };
            match breaks(shorter) {
                true => {
                    scenario = shorter;
                    cut = cut.min(scenario.steps / 2);
                }
                false => cut /= 2,
            }
        }
        scenario
    }
}

#[test]
fn a_scenario_shrinks_to_what_breaks_the_rule() {
    let breaks = |scenario: Scenario| scenario.steps >= 37 && scenario.has(Fault::Crashes);
    let wanted = Scenario {
        seed: 3,
        steps: 37,
        without: 1 + 2 + 8 + 16,
    };
    assert_eq!(Scenario::of(3).shrunk(breaks), wanted);
}
