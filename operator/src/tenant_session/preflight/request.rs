//! One question to a tenant's API.

use http::Request;
use http::header::ACCEPT;
use kit_client::errors::chain;
use kube::Client;
use serde::de::DeserializeOwned;

use super::answers::Answer;

/// Asks for `path` in the form of `accept`; else says why there is no answer.
pub(super) async fn get<T: DeserializeOwned>(
    client: &Client,
    path: &str,
    accept: &str,
) -> Answer<T> {
    let request = Request::get(path).header(ACCEPT, accept);
    let request = request.body(Vec::new()).map_err(|error| chain(&error))?;
    client.request(request).await.map_err(|error| chain(&error))
}
