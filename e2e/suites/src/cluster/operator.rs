//! What the operator's pods use, by their own metrics.
//!
//! Invariant: figures of one reading belong together; pods that went away between two readings
//! make the difference invalid rather than small.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, ResourceExt as _, api::ListParams};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{Duration, timeout},
};

use super::OPERATOR_NAMESPACE;

/// How the chart labels the operator's pods.
pub const SELECTOR: &str = "app.kubernetes.io/name=covey,app.kubernetes.io/component=operator";
/// How it labels those of the webhook.
pub const WEBHOOK_SELECTOR: &str =
    "app.kubernetes.io/name=covey,app.kubernetes.io/component=webhook";
const ADMIN_PORT: u16 = 8080;

/// Usage of one pod.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Usage {
    /// Resident memory, MiB.
    pub rss_mib: f64,
    /// CPU time since the start, seconds.
    pub cpu_s: f64,
}

/// Usage of every running operator pod, by name.
///
/// # Errors
/// When there is none or one does not answer.
pub async fn usage(client: &Client) -> Result<BTreeMap<String, Usage>> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), OPERATOR_NAMESPACE);
    let list = pods.list(&ListParams::default().labels(SELECTOR)).await?;
    let mut all = BTreeMap::new();
    for pod in list {
        let status = pod.status.clone().unwrap_or_default();
        let running = status.phase.as_deref() == Some("Running");
        if !running || pod.metadata.deletion_timestamp.is_some() {
            continue;
        }
        let address = status
            .pod_ip
            .context("an operator pod runs without an address")?;
        let metrics = get(&address, ADMIN_PORT, "/metrics").await?;
        let value = |name: &str| {
            let line = metrics.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|rest| rest.trim().parse::<f64>().ok())
                .with_context(|| format!("{} publishes no {name}", pod.name_any()))
        };
        let usage = Usage {
            rss_mib: value("process_resident_memory_bytes ")? / 1_048_576.0,
            cpu_s: value("process_cpu_seconds_total ")?,
        };
        all.insert(pod.name_any(), usage);
    }
    ensure!(
        !all.is_empty(),
        "no operator runs in {OPERATOR_NAMESPACE}: `cargo xtask demo` installs it"
    );
    Ok(all)
}

/// CPU seconds of all pods between two readings; none when a pod came or went.
#[must_use]
pub fn cpu_between(
    before: &BTreeMap<String, Usage>,
    after: &BTreeMap<String, Usage>,
) -> Option<f64> {
    let same = before.len() == after.len();
    let used = |(name, now): (&String, &Usage)| Some(now.cpu_s - before.get(name)?.cpu_s);
    same.then(|| after.iter().map(used).sum::<Option<f64>>())
        .flatten()
}

/// Memory of the pod with the most of it.
#[must_use]
pub fn largest(usage: &BTreeMap<String, Usage>) -> f64 {
    usage.values().map(|u| u.rss_mib).fold(0.0, f64::max)
}

/// One plain GET, without a library for it.
///
/// # Errors
/// When there is no answer with status 200 within five seconds.
pub async fn get(address: &str, port: u16, path: &str) -> Result<String> {
    get_within(Duration::from_secs(5), address, port, path).await
}

/// The same, with a limit of its own.
///
/// # Errors
/// When it cannot be had within that time, or is not a 200.
pub async fn get_within(limit: Duration, address: &str, port: u16, path: &str) -> Result<String> {
    let ask = async {
        let mut stream = TcpStream::connect((address, port)).await?;
        let request =
            format!("GET {path} HTTP/1.0\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        anyhow::Ok(String::from_utf8_lossy(&answer).into_owned())
    };
    let answer = timeout(limit, ask).await;
    let answer = answer
        .with_context(|| format!("{address}:{port}{path} is silent"))?
        .with_context(|| format!("{address}:{port}{path} cannot be read"))?;
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .context("not an HTTP answer")?;
    ensure!(
        head.starts_with("HTTP/1") && head.contains(" 200"),
        "{path}: {head}"
    );
    Ok(body.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_that_came_meanwhile_makes_the_difference_invalid() {
        let usage = |cpu_s| Usage {
            rss_mib: 1.0,
            cpu_s,
        };
        let before = BTreeMap::from([("a".to_owned(), usage(1.0))]);
        let after = BTreeMap::from([("a".to_owned(), usage(1.5))]);
        let other = BTreeMap::from([("b".to_owned(), usage(1.5))]);
        assert_eq!(cpu_between(&before, &after), Some(0.5));
        assert_eq!(cpu_between(&before, &other), None);
    }
}
