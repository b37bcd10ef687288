//! The page of the server: files that a browser loads, embedded in the program. They use the JSON
//! gateway and nothing else.

use bytes::Bytes;
use rust_embed::{EmbeddedFile, RustEmbed};
use std::borrow::Cow;

#[derive(RustEmbed)]
#[folder = "src/page"]
struct Files;

/// A file of the page.
pub(crate) struct PageFile {
    /// Its media type.
    pub kind: String,
    pub content: Bytes,
}

/// What is served at a path; `None`: nothing is.
pub(crate) fn file(path: &str) -> Option<PageFile> {
    let name = match path.strip_prefix('/')? {
        "" => "index.html",
        name => name,
    };
    let EmbeddedFile { data, metadata } = Files::get(name)?;
    let kind = match metadata.mimetype() {
        text if text.starts_with("text/") => format!("{text}; charset=utf-8"),
        kind => kind.to_owned(),
    };
    let content = match data {
        // Not copied for each request: whoever does not fetch it would hold a copy.
        Cow::Borrowed(data) => Bytes::from_static(data),
        Cow::Owned(data) => data.into(),
    };
    Some(PageFile { kind, content })
}
