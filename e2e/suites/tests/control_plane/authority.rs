//! Needs: operator
//!
//! Nobody is in system:masters by a stored certificate, and every stored leaf is signed by the
//! authority it should be signed by.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Secret;
use kube::{ResourceExt as _, api::ListParams};
use suites::{
    cluster::credentials,
    scenario::{self, PATIENCE},
};
use x509_parser::{parse_x509_certificate, pem::Pem};

#[tokio::test]
async fn no_stored_certificate_is_in_system_masters() {
    scenario::run("no-masters", no_masters).await;
}

async fn no_masters(s: &scenario::Scenario) -> Result<()> {
    let tenant = s.tenant("demo", |_| {}).await?;
    tenant.settled(PATIENCE).await?;
    let mut certificates = BTreeMap::new();
    for secret in tenant
        .parts::<Secret>()
        .list(&ListParams::default())
        .await?
    {
        for (key, value) in secret.data.clone().unwrap_or_default() {
            let text = String::from_utf8_lossy(&value.0).into_owned();
            if text.contains("BEGIN CERTIFICATE") {
                certificates.insert(format!("{}/{key}", secret.name_any()), text);
            }
        }
    }
    let credentials::Access {
        certificate: admin, ..
    } = credentials::parts(&tenant.kubeconfig(PATIENCE).await?)?;
    certificates.insert("kubeconfig".to_owned(), String::from_utf8(admin)?);
    // Authorities, their copies, and the leaves: fewer than this and the test looked elsewhere.
    ensure!(certificates.len() >= 14, "only {:?}", certificates.keys());
    let mut issuers = BTreeMap::new();
    for (place, text) in &certificates {
        for pem in Pem::iter_from_buffer(text.as_bytes()) {
            let pem = pem.with_context(|| format!("{place} is not PEM"))?;
            let (_, certificate) = parse_x509_certificate(&pem.contents)?;
            let subject = certificate.subject().to_string();
            ensure!(!subject.contains("system:masters"), "{place}: {subject}");
            issuers.insert(place.clone(), certificate.issuer().to_string());
        }
    }
    for (place, issuer) in [
        ("kubeconfig", "CN=users-ca"),
        ("apiserver/apiserver.crt", "CN=kubernetes"),
        ("apiserver/apiserver-kubelet-client.crt", "CN=kubernetes"),
        ("apiserver/apiserver-etcd-client.crt", "CN=etcd-ca"),
        ("apiserver/front-proxy-client.crt", "CN=front-proxy-ca"),
        ("etcd/etcd-0-server.crt", "CN=etcd-ca"),
        ("operator-client/operator.crt", "CN=client-ca"),
    ] {
        let found = issuers.get(place).map(String::as_str);
        ensure!(
            found == Some(issuer),
            "{place} is issued by {found:?}, not by {issuer}"
        );
    }
    Ok(())
}
