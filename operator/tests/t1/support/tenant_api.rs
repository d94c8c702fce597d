//! A real kube-apiserver of a tenant cluster, with the flags, files and certificates that the operator laid for it, over
//! its etcd.
//!
//! Invariant: nothing but ports, folders and addresses is other than in a cluster.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context as _, Result, bail};
use http::Request;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Secret;
use kube::api::ListParams;
use kube::{Api, Client, Config, ResourceExt as _};
use operator::tenant_session::session::Session;
use pki::KeyPair;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use tenant_cp::certificates::{self, Material};
use tenant_cp::generations::bundle;
use testkit::fixtures::wait_for;
use testkit::ports::unused;
use testkit::process::{Process, Workdir};
use testkit::programs::Programs;
use testkit::waiting::ask_until;

use super::PATIENCE;
use super::checks::files;

/// It runs until it is dropped.
pub(crate) struct TenantApi {
    material: Material,
    address: SocketAddr,
    // It ends before its folder goes.
    _process: Process,
    _dir: Workdir,
}

impl TenantApi {
    /// None where the program is missing.
    pub(crate) async fn start(
        management: &Client,
        namespace: &str,
        etcd: &str,
    ) -> Result<Option<Self>> {
        Self::start_with(management, namespace, etcd, None).await
    }

    /// The same, with an etcd of its own for Events where it is told of one.
    pub(crate) async fn start_with(
        management: &Client,
        namespace: &str,
        etcd: &str,
        events: Option<&str>,
    ) -> Result<Option<Self>> {
        let Some(programs) = Programs::find_or_skip()? else {
            return Ok(None);
        };
        let deployments: Api<Deployment> = Api::namespaced(management.clone(), namespace);
        // It comes once etcd serves, and what it mounts before it.
        let there = |found: Option<&Deployment>| found.is_some();
        let deployment = wait_for(&deployments, "control-plane", there, PATIENCE).await?;
        let deployment = serde_json::to_value(deployment)?;
        let dir = Workdir::new()?;
        files(management, namespace, "apiserver", dir.path()).await?;
        let place = dir.path().display().to_string();
        for entry in std::fs::read_dir(dir.path())? {
            // Some name others beside them.
            let path = entry?.path();
            let text = std::fs::read_to_string(&path)?;
            std::fs::write(&path, text.replace("/etc/kubernetes", &place))?;
        }
        let containers = &deployment["spec"]["template"]["spec"]["containers"];
        let mut containers = containers.as_array().into_iter().flatten();
        let container = containers.find(|container| container["name"] == "apiserver");
        let port = unused()?;
        let arg = |arg: &Value| {
            let arg = arg.as_str().unwrap_or_default();
            match arg.split_once('=') {
                Some((flag @ "--etcd-servers", _)) => format!("{flag}={etcd}"),
                Some((flag @ "--etcd-servers-overrides", _)) => {
                    let events = events.unwrap_or(etcd);
                    format!("{flag}=/events#{events}")
                }
                Some((flag @ "--secure-port", _)) => format!("{flag}={port}"),
                _ => {
                    let arg = arg.replace("/etc/kubernetes", &place);
                    arg.replace("/var/log/kubernetes", &place)
                }
            }
        };
        let args = container.context("no container")?["args"].as_array();
        let mut args: Vec<_> = args.context("no args")?.iter().map(arg).collect();
        args.push("--bind-address=127.0.0.1".to_owned());
        let log = dir.path().join("log");
        let mut process = Process::spawn("kube-apiserver", &programs.kube_apiserver, &args, &log)?;
        let material = material(management, namespace).await?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let admin = administrator(&material, &material, address)?;
        ask_until(
            "the API of the tenant cluster is ready",
            PATIENCE * 2,
            || {
                let ended = process.exited().map(|_| process.log_tail(20));
                let client = admin.clone();
                async move {
                    if let Some(log) = ended {
                        bail!(log);
                    }
                    let ready = Request::get("/readyz").body(Vec::new())?;
                    let answer = client.request_text(ready).await;
                    Ok(answer.map(drop).map_err(|e| e.to_string()))
                }
            },
        )
        .await?;
        Ok(Some(Self {
            material,
            address,
            _process: process,
            _dir: dir,
        }))
    }

    /// Somebody in `system:masters`.
    pub(crate) fn administrator(&self) -> Result<Client> {
        administrator(&self.material, &self.material, self.address)
    }

    /// The operator itself.
    pub(crate) fn operator(&self) -> Result<Client> {
        let identity = self.material.store.get("operator").cloned();
        self.client(identity.context("the operator has no certificate")?)
    }

    /// Somebody of this name, who has no rights.
    pub(crate) fn somebody(&self, name: &str) -> Result<Client> {
        let want = pki::Want::client(name, "client-ca", name, 1);
        let signer = self.material.store.get("client-ca");
        self.client(pki::issue(&want, signer, Timestamp::now())?)
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whoever has this certificate.
    pub(crate) fn client(&self, identity: KeyPair) -> Result<Client> {
        let session = Session {
            address: self.address,
            authority: bundle(&self.material.store, "ca").context("no authority")?,
            identity,
            server_name: "kubernetes".to_owned(),
        };
        Ok(session.client_without_budget(PATIENCE)?)
    }

    /// Whoever has this token, and no certificate.
    pub(crate) fn client_by_token(&self, token: &str) -> Result<Client> {
        let authority = bundle(&self.material.store, "ca").context("no authority")?;
        let mut config = Config::new(format!("https://{}", self.address).parse()?);
        let certificates: Result<Vec<_>, _> =
            CertificateDer::pem_slice_iter(authority.as_bytes()).collect();
        let certificates = certificates.context("no certificate")?;
        config.root_cert = Some(certificates.iter().map(|one| one.to_vec()).collect());
        config.tls_server_name = Some("kubernetes".to_owned());
        config.auth_info = serde_json::from_value(json!({ "token": token }))?;
        Ok(Client::try_from(config)?)
    }

    /// Somebody in `system:masters` of another tenant cluster, who knows whom to believe here.
    pub(crate) fn administrator_of(&self, other: &Self) -> Result<Client> {
        administrator(&self.material, &other.material, self.address)
    }

    /// Certificates of whom it believes as clients.
    pub(crate) fn clients(&self) -> Result<String> {
        tenant_cp::generations::clients(&self.material.store).context("no authority")
    }
}

fn administrator(of: &Material, signed_by: &Material, address: SocketAddr) -> Result<Client> {
    let want = certificates::super_admin();
    let signer = signed_by.store.get("client-ca");
    let identity: KeyPair = pki::issue(&want, signer, Timestamp::now())?;
    let session = Session {
        address,
        authority: bundle(&of.store, "ca").context("no authority")?,
        identity,
        server_name: "kubernetes".to_owned(),
    };
    Ok(session.client_without_budget(PATIENCE)?)
}

async fn material(management: &Client, namespace: &str) -> Result<Material> {
    let secrets: Api<Secret> = Api::namespaced(management.clone(), namespace);
    let all = secrets.list(&ListParams::default()).await?.items;
    let of = |secret: Secret| {
        let data = secret.data.clone().unwrap_or_default().into_iter();
        let data: BTreeMap<_, _> = data.map(|(name, bytes)| (name, bytes.0)).collect();
        (secret.name_any(), data)
    };
    Ok(certificates::read_store(&all.into_iter().map(of).collect()))
}
