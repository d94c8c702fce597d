//! Probe of a tenant's API: one authenticated question that tells whether it serves, and what.
//!
//! Invariant: the answer is untrusted and cut to size; a silent API costs one time-out.

use kube::Client;

use super::session::{Error, REQUEST_TIMEOUT};

/// Asks whether somebody serves there: a refusal shows it as well, but not an answer that says "not now".
///
/// # Errors
/// [`Error::AskVersion`].
pub async fn serves(client: &Client) -> Result<(), Error> {
    match version(client).await {
        Err(Error::AskVersion(error)) if is_answer(&error) => Ok(()),
        result => result.map(drop),
    }
}

fn is_answer(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code < 500 && status.code != 429)
}

/// Asks an authenticated question; gives the version without the leading `v`.
///
/// # Errors
/// [`Error::AskVersion`], also when the credentials are refused.
pub async fn version(client: &Client) -> Result<String, Error> {
    let ask = tokio::time::timeout(REQUEST_TIMEOUT, client.apiserver_version());
    match ask.await {
        Ok(Ok(info)) => {
            let text: String = info
                .git_version
                .trim_start_matches('v')
                .chars()
                .take(64)
                .collect();
            Ok(text)
        }
        Ok(Err(error)) => Err(Error::AskVersion(Box::new(error))),
        Err(elapsed) => Err(Error::AskVersion(Box::new(kube::Error::Service(
            elapsed.into(),
        )))),
    }
}
