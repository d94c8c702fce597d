//! Names of the nodes of a tenant cluster.
//!
//! Invariant: of each nothing but its name is kept, and there is a most of them.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Node;
use kit_client::errors::chain;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};

/// Nodes of one page.
const PAGE: u32 = 200;
/// Pages that are asked for: what is behind them is not known.
const MOST_PAGES: usize = 30;

/// All of a tenant cluster.
///
/// # Errors
/// Why they are not known.
pub async fn ask(client: &Client) -> Result<BTreeSet<String>, String> {
    let nodes = Api::<Node>::all(client.clone());
    let mut params = ListParams::default().limit(PAGE);
    let mut names = BTreeSet::new();
    for _ in 0..MOST_PAGES {
        let page = nodes.list_metadata(&params).await;
        let page = page.map_err(|error| chain(&error))?;
        names.extend(page.items.iter().map(|node| node.name_any()));
        match page.metadata.continue_.filter(|next| !next.is_empty()) {
            Some(next) => params.continue_token = Some(next),
            None => return Ok(names),
        }
    }
    let most = MOST_PAGES * usize::try_from(PAGE).unwrap_or_default();
    Err(format!("there are more than {most} nodes"))
}
