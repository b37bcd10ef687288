//! What of a request names the thing that a call is about, in words for the audit.

use rallypoint_client::api;

/// A field that names something.
pub(crate) trait Naming {
    /// It, in words.
    fn words(&self) -> String;
}

impl Naming for String {
    fn words(&self) -> String {
        self.clone()
    }
}

impl Naming for i64 {
    fn words(&self) -> String {
        self.to_string()
    }
}

impl Naming for Option<api::TaskId> {
    fn words(&self) -> String {
        let words = |id: &api::TaskId| format!("{}/{}", id.handle, id.seq);
        self.as_ref().map_or_else(String::new, words)
    }
}
