//! Resources of capacity 0: nobody who waits for one has a turn before it is raised.

use crate::cli::shell;
use rallypoint_client::{
    Client,
    api::{GetResourceRequest, ResourceUse},
};

/// Says it of those among these; `None`: all have some capacity, as far as the service says.
pub(crate) async fn in_words(client: &Client, uses: &[ResourceUse]) -> Option<String> {
    let mut closed = Vec::new();
    for used in uses {
        let request = GetResourceRequest {
            name: used.name.clone(),
            page_size: 1,
        };
        let known = client.get_resource(request).await.ok()?;
        let resource = known.resource.unwrap_or_default();
        if resource.settings.unwrap_or_default().capacity == 0 {
            closed.push((used.name.clone(), resource.defined_by));
        }
    }
    let (name, defined_by) = closed.first()?;
    Some(format!(
        "{name} has capacity 0, and nothing is granted until it is raised: \
         `rallypoint resource update {} --capacity N`",
        shell::word(defined_by)
    ))
}
