//! Calls that retry, and the copies that came of them.

use crate::history::{Answer, Asked, Entry, Logged, Mark, Retried};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Copies get names from here on in the place of the tokens of their originals.
const FIRST_NAME: i64 = 1 << 40;

/// One try of a call.
pub(crate) struct Retry {
    pub handle: String,
    /// Tries with the same one are one call.
    pub request: String,
    /// `None`: of those that failed.
    pub seq: Option<i64>,
    pub ended: i64,
    pub answer: Answer<Vec<Retried>>,
}

/// A task of the log that is a copy.
pub(crate) struct Copy {
    pub handle: String,
    pub seq: i64,
    pub of: i64,
    /// It has the text of its original, and a higher number.
    pub alike: bool,
}

#[derive(Default)]
pub(crate) struct Retries {
    pub calls: Vec<Retry>,
    pub copies: Vec<Copy>,
    /// Schedulers that a failure halts, and whose failures are retried until they have succeeded.
    pub repaired: HashSet<String>,
    /// Of these the ones whose halts were to be lifted otherwise.
    pub ignored: HashSet<String>,
}

impl Retries {
    pub(super) fn take(&mut self, entry: &Entry) {
        match entry {
            Entry::Opened {
                handle, repaired, ..
            } if *repaired => _ = self.repaired.insert(handle.clone()),
            Entry::FailuresIgnored { handle } => _ = self.ignored.insert(handle.clone()),
            Entry::Retry {
                ended,
                handle,
                request,
                seq,
                answer,
                ..
            } => self.calls.push(Retry {
                handle: handle.clone(),
                request: request.clone(),
                seq: *seq,
                ended: *ended,
                answer: answer.clone(),
            }),
            _ => {}
        }
    }

    /// What the calls were answered, with the call.
    pub(super) fn answered(&self) -> impl Iterator<Item = (&Retry, &Retried)> {
        self.calls.iter().flat_map(|call| {
            let retried = match &call.answer {
                Answer::Ok(retried) => retried.as_slice(),
                _ => &[],
            };
            retried.iter().map(move |retried| (call, retried))
        })
    }
}

/// Finds the copies, and gives each a token of its own: in its text is that of its original. From
/// then on a copy is a task like any other, with marks of its own.
pub(super) fn separated(
    log: &mut BTreeMap<String, Vec<Logged>>,
    marks: &mut HashMap<i64, Vec<Mark>>,
    asked: &mut HashMap<i64, Asked>,
) -> Vec<Copy> {
    let mut copies = Vec::new();
    for rows in log.values_mut() {
        // As the texts have them.
        let texts: HashMap<i64, (i64, String)> = rows
            .iter()
            .map(|row| (row.seq, (row.token, row.kind.clone())))
            .collect();
        for row in rows.iter_mut() {
            let Some(of) = row.retry_of else { continue };
            let same_text = texts.get(&of) == texts.get(&row.seq);
            copies.push(Copy {
                handle: row.handle.clone(),
                seq: row.seq,
                of,
                alike: same_text && of < row.seq,
            });
            if row.token > 0 && same_text {
                let name = FIRST_NAME + copies.len() as i64;
                let original = marks.entry(row.token).or_default();
                let own: Vec<Mark> = original
                    .extract_if(.., |mark| mark.seq == Some(row.seq))
                    .map(|mark| Mark {
                        token: name,
                        ..mark
                    })
                    .collect();
                marks.insert(name, own);
                if let Some(task) = asked.get(&row.token).copied() {
                    asked.insert(
                        name,
                        Asked {
                            token: name,
                            ..task
                        },
                    );
                }
                row.token = name;
            }
        }
    }
    copies
}
