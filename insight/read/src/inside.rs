//! What is read inside a tenant cluster, with the credential that a client of it has.
//!
//! Invariant: every list has a bound, and nothing is written.

use insight::inside::{Inside, RemovedApi, failing_parts, removed_apis};
use k8s_openapi::api::core::v1::Event;
use kit_objects::known::Known;
use kube::Client;
use kube::api::{Api, ListParams};

use crate::reader::Reader;

/// Pages of each list.
const PAGES: usize = 4;

/// Reads it, all lists at once. What may not be read is noted by the reader.
pub async fn read(reader: &Reader, client: &Client) -> Inside {
    let all = ListParams::default;
    let warnings = all().fields("type=Warning");
    let (nodes, services, slices) = (
        Api::all(client.clone()),
        Api::all(client.clone()),
        Api::all(client.clone()),
    );
    let (claims, classes, attachments) = (
        Api::all(client.clone()),
        Api::all(client.clone()),
        Api::all(client.clone()),
    );
    let (validating, mutating) = (Api::all(client.clone()), Api::all(client.clone()));
    let events: Api<Event> = Api::all(client.clone());
    let lists = tokio::join!(
        reader.list(&nodes, all(), PAGES, "nodes inside"),
        reader.list(&services, all(), PAGES, "services inside"),
        reader.list(&slices, all(), PAGES, "endpointslices inside"),
        reader.list(&claims, all(), PAGES, "persistentvolumeclaims inside"),
        reader.list(&classes, all(), PAGES, "storageclasses inside"),
        reader.list(&attachments, all(), PAGES, "volumeattachments inside"),
        reader.list(
            &validating,
            all(),
            PAGES,
            "validatingwebhookconfigurations inside"
        ),
        reader.list(
            &mutating,
            all(),
            PAGES,
            "mutatingwebhookconfigurations inside"
        ),
        reader.list(&events, warnings, PAGES, "events inside"),
        not_ready(client),
        removed(client),
    );
    Inside {
        nodes: lists.0,
        services: lists.1,
        slices: lists.2,
        claims: lists.3,
        classes: lists.4,
        attachments: lists.5,
        validating: lists.6,
        mutating: lists.7,
        warnings: lists.8,
        not_ready: lists.9,
        removed: lists.10,
    }
}

/// A text at a path; where the API says that it is not well, that text.
async fn text(client: &Client, path: &str) -> Option<String> {
    let request = http::Request::get(path).body(Vec::new()).ok()?;
    match client.request_text(request).await {
        Ok(text) => Some(text),
        // `/readyz` answers 500 and what is not ready.
        Err(kube::Error::Api(status)) if status.code == 500 => Some(status.message.clone()),
        Err(_) => None,
    }
}

async fn not_ready(client: &Client) -> Known<Vec<String>> {
    let said = text(client, "/readyz?verbose").await;
    said.map_or_else(Known::default, |said| Known::Known(failing_parts(&said)))
}

async fn removed(client: &Client) -> Known<Vec<RemovedApi>> {
    let said = text(client, "/metrics").await;
    said.map_or_else(Known::default, |said| Known::Known(removed_apis(&said)))
}
