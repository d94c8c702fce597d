//! Needs: operator, node
//!
//! A hostile node: with the credential of its kubelet it may be itself and nobody else.

use std::{net::IpAddr, time::Duration};

use anyhow::{Context as _, Result, bail, ensure};
use k8s_openapi::api::{
    authentication::v1::TokenRequest,
    certificates::v1::CertificateSigningRequest,
    core::v1::{Node, Pod, Secret, ServiceAccount},
};
use kube::{
    Api, Client,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use rcgen::{CertificateParams, DnType, KeyPair, SanType};
use serde_json::{Value, json};
use suites::{
    cluster::{
        credentials::{self, Identity},
        wait::wait_for,
    },
    scenario::{
        self, PATIENCE, Scenario,
        workers::{NODES, PODS, Workers},
        workload::{IMAGE, on_node},
    },
};

const OTHER: &str = "other";
pub(super) const SERVING: &str = "kubernetes.io/kubelet-serving";
const CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";

#[tokio::test]
async fn a_kubelets_credential_is_good_for_its_own_node_alone() {
    scenario::run("hostile", hostile).await;
}

async fn hostile(s: &Scenario) -> Result<()> {
    let workers = s.workers(|_, _| {}).await?;
    let machines = workers.pool.settled(1, NODES).await?;
    let (own, machine) = machines.first_key_value().context("no Machine")?;
    let status = machine.status.clone().unwrap_or_default();
    let address = status.addresses.first().context("no address")?;
    let address: IpAddr = address.address.parse()?;
    others(&workers).await?;
    let node = kubelet(&workers, own).await?;
    let admin = workers.tenant.admin(PATIENCE).await?;

    // What it is for works, so that refusals mean something.
    Api::<Node>::all(node.clone())
        .get(own)
        .await
        .context("the kubelet's credential does not even read its own node")?;
    labels(&node, own).await?;
    secrets(&node).await?;
    tokens(&node).await?;
    certificates(&admin, &node, own, address).await
}

/// What belongs to somebody else: a node, a pod on it, and the Secret of that pod.
async fn others(workers: &Workers) -> Result<()> {
    let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": OTHER } });
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "theirs" },
        "stringData": { "key": "value" },
    });
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "theirs" },
        "spec": {
            "nodeName": OTHER,
            "containers": [{ "name": "x", "image": IMAGE }],
            "volumes": [{ "name": "secret", "secret": { "secretName": "theirs" } }],
        },
    });
    let manifest = scenario::workload::list(&[node, secret, pod]);
    workers.kubectl.apply(&manifest).await.map(drop)
}

/// A client with the credential that is on the node's disk.
pub(super) async fn kubelet(workers: &Workers, node: &str) -> Result<Client> {
    let cat = "cat /var/lib/kubelet/pki/kubelet-client-current.pem";
    let pem = on_node(&workers.kubectl, node, PODS, cat).await?;
    let kubeconfig = workers.tenant.kubeconfig(PATIENCE).await?;
    let access = credentials::parts(&kubeconfig)?;
    // Certificate and key are one file.
    let identity = Identity::Certificate {
        certificate: pem.clone().into_bytes(),
        key: pem.into_bytes(),
    };
    credentials::client(&access.server, &access.authority, &identity).await
}

fn refused<T: std::fmt::Debug>(what: &str, answer: Result<T, kube::Error>) -> Result<()> {
    match answer {
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(()),
        answer => bail!("{what}: {answer:?}"),
    }
}

async fn labels(client: &Client, own: &str) -> Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    let params = PatchParams::default();
    let label = |key: &str| Patch::Merge(json!({ "metadata": { "labels": { (key): "yes" } } }));
    let answer = nodes.patch(OTHER, &params, &label("example.com/x")).await;
    refused("labels another node", answer)?;
    let reserved = label("node-restriction.kubernetes.io/x");
    let answer = nodes.patch(own, &params, &reserved).await;
    refused("gives itself a reserved label", answer)?;
    let answer = nodes.delete(OTHER, &Default::default()).await;
    refused("deletes another node", answer.map(|_| ()))?;
    // Its own label, which is its to set, it may.
    nodes.patch(own, &params, &label("example.com/x")).await?;
    Ok(())
}

async fn secrets(client: &Client) -> Result<()> {
    let theirs: Api<Secret> = Api::namespaced(client.clone(), "default");
    refused("reads another node's Secret", theirs.get("theirs").await)?;
    let all: Api<Secret> = Api::all(client.clone());
    refused("lists Secrets", all.list(&ListParams::default()).await)?;
    let system: Api<Secret> = Api::namespaced(client.clone(), "kube-system");
    refused(
        "lists kube-system's",
        system.list(&ListParams::default()).await,
    )?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let answer = pods.delete("theirs", &Default::default()).await;
    refused("deletes another node's pod", answer.map(|_| ()))
}

async fn tokens(client: &Client) -> Result<()> {
    let request: TokenRequest = serde_json::from_value(json!({ "spec": { "audiences": [] } }))?;
    for (namespace, name) in [
        ("default", "default"),
        ("kube-system", "namespace-controller"),
    ] {
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
        let answer = accounts
            .create_token_request(name, &PostParams::default(), &request)
            .await;
        let what = format!("gets a token of {namespace}/{name}");
        refused(&what, answer.map(|_| ()))?;
    }
    Ok(())
}

/// Requests are judged in the order in which they come in, so once a good one that came last has
/// its certificate, the bad ones before it have been looked at.
async fn certificates(admin: &Client, client: &Client, own: &str, address: IpAddr) -> Result<()> {
    let elsewhere: IpAddr = "192.0.2.1".parse()?;
    let own_user = format!("system:node:{own}");
    let other_user = format!("system:node:{OTHER}");
    let serving = ["digital signature", "server auth"];
    let identity = ["digital signature", "client auth"];
    let bad = [
        ("other-name", SERVING, &other_user, OTHER, address, serving),
        ("other-host", SERVING, &own_user, OTHER, address, serving),
        ("other-address", SERVING, &own_user, own, elsewhere, serving),
        ("other-node", CLIENT, &other_user, OTHER, address, identity),
    ];
    let requests: Api<CertificateSigningRequest> = Api::all(client.clone());
    let judged: Api<CertificateSigningRequest> = Api::all(admin.clone());
    let mut pending = Vec::new();
    for (name, signer, user, host, address, usages) in bad {
        let request = request(name, signer, user, host, address, &usages)?;
        match requests.create(&PostParams::default(), &request).await {
            // Refused at the door is as good as denied.
            Err(kube::Error::Api(status)) if matches!(status.code, 400 | 403 | 422) => {}
            Err(error) => return Err(error.into()),
            Ok(_) => pending.push((name, signer)),
        }
    }
    let good = request("good", SERVING, &own_user, own, address, &serving)?;
    requests.create(&PostParams::default(), &good).await?;
    wait_for(&judged, "good", "has a certificate", PATIENCE, |csr| {
        csr.status.as_ref()?.certificate.as_ref().map(drop)
    })
    .await?;
    for (name, signer) in pending {
        if signer == SERVING {
            wait_for(&judged, name, "is denied", PATIENCE, |csr| {
                let conditions = csr.status.as_ref()?.conditions.as_ref()?;
                conditions.iter().find(|c| c.type_ == "Denied").map(drop)
            })
            .await?;
        }
        let status = judged.get(name).await?.status.unwrap_or_default();
        let approved = status.conditions.iter().flatten();
        let mut approved = approved.filter(|c| c.type_ == "Approved");
        ensure!(
            approved.next().is_none() && status.certificate.is_none(),
            "{name} got a certificate: {status:?}"
        );
    }
    Ok(())
}

pub(super) fn request(
    name: &str,
    signer: &str,
    user: &str,
    host: &str,
    address: IpAddr,
    usages: &[&str],
) -> Result<CertificateSigningRequest> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::default();
    let subject = &mut params.distinguished_name;
    subject.push(DnType::OrganizationName, "system:nodes");
    subject.push(DnType::CommonName, user);
    if signer == SERVING {
        params.subject_alt_names = vec![
            SanType::DnsName(host.try_into()?),
            SanType::IpAddress(address),
        ];
    }
    let pem = params.serialize_request(&key)?.pem()?;
    let request = k8s_openapi::ByteString(pem.into_bytes());
    let seconds = Duration::from_secs(3600).as_secs();
    let object: Value = json!({
        "metadata": { "name": name },
        "spec": { "request": request, "signerName": signer, "usages": usages,
            "expirationSeconds": seconds },
    });
    Ok(serde_json::from_value(object)?)
}
