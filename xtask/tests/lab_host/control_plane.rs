//! A control plane in the network of a host of the lab, with what Covey makes inside tenant clusters.
//!
//! Invariant: its programs are real, and end with the value; what nodes read to join is what `tenant_cp` says, not
//! what `kubeadm init` would make.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use api::TenantCluster;
use api::tenant_cluster::EndpointStatus;
use jiff::{SignedDuration, Timestamp};
use lab::programs::{self, Bins, KubernetesVersion, Program};
use serde_json::{Value, json};
use tempfile::TempDir;
use tenant_cp::node::bootstrap_token::{self, Token};
use tenant_cp::node::user_data::{self, authority_digest};
use tenant_cp::tenant_objects::{self, Trust};
use tenant_cp::{Addresses, Settings, validate};
use testkit::process::Process;

use crate::checkout::Lab;

/// The longest that anything here may take: only a failing test uses it up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
const PORT: i32 = 6443;

/// A control plane that is just enough for nodes.
pub(crate) struct ControlPlane {
    folder: TempDir,
    bins: Bins,
    address: String,
    /// Of the process in whose network it is.
    pid: i32,
    /// The first one ends first.
    programs: Vec<Process>,
}

impl ControlPlane {
    /// On a new host of the lab, with a tenant cluster's objects in it.
    pub(crate) async fn start(lab: &Lab) -> Result<Self> {
        let version = KubernetesVersion::default();
        let host = lab.add("control-plane", &["--jump"])?;
        let state = lab.state()?;
        let mut this = Self {
            folder: TempDir::new()?,
            bins: programs::find(&[Program::ETCD, Program::kubernetes(version)])?,
            address: host.0["address"].as_str().context("no address")?.to_owned(),
            pid: state.ssh_hosts["control-plane"].host.init.pid,
            programs: Vec::new(),
        };
        this.make_keys(version)?;
        this.spawn_api_server()?;
        let is_up = || this.kubectl(&["get", "namespace", "kube-public"]).is_ok();
        until("the API server answers", is_up).await?;
        this.spawn_controller_manager()?;
        this.apply(&this.objects(version)?)?;
        Ok(this)
    }

    fn make_keys(&self, version: KubernetesVersion) -> Result<()> {
        let (address, config) = (&self.address, self.at("init.yaml"));
        let text = format!(
            "apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\n\
             localAPIEndpoint: {{advertiseAddress: {address}, bindPort: {PORT}}}\n\
             nodeRegistration: {{name: control-plane}}\n---\n\
             apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\n\
             kubernetesVersion: v{version}\ncertificatesDir: {}\n\
             encryptionAlgorithm: ECDSA-P256\ncontrolPlaneEndpoint: {address}:{PORT}\n\
             etcd: {{external: {{endpoints: [\"http://127.0.0.1:2379\"]}}}}\n",
            self.at("pki")
        );
        fs::write(&config, text)?;
        self.kubeadm(&["certs", "all", "--config", &config])?;
        let folder = self.at("");
        for name in ["super-admin", "controller-manager"] {
            let write = ["kubeconfig", name, "--config", &config];
            self.kubeadm(&[&write[..], &["--kubeconfig-dir", &folder]].concat())?;
        }
        Ok(())
    }

    fn spawn_api_server(&mut self) -> Result<()> {
        let (pki, data) = (self.at("pki"), self.at("etcd"));
        self.spawn(
            "etcd",
            &[&format!("--data-dir={data}"), "--unsafe-no-fsync"],
        )?;
        self.spawn(
            "kube-apiserver",
            &[
                "--etcd-servers=http://127.0.0.1:2379",
                &format!("--advertise-address={}", self.address),
                &format!("--client-ca-file={pki}/ca.crt"),
                &format!("--tls-cert-file={pki}/apiserver.crt"),
                &format!("--tls-private-key-file={pki}/apiserver.key"),
                "--service-account-issuer=https://kubernetes.default.svc",
                &format!("--service-account-key-file={pki}/sa.pub"),
                &format!("--service-account-signing-key-file={pki}/sa.key"),
                "--authorization-mode=Node,RBAC",
                "--enable-bootstrap-token-auth",
                "--service-cluster-ip-range=10.96.0.0/16",
                "--enable-admission-plugins=NodeRestriction",
            ],
        )
    }

    /// It has to sign `cluster-info`, which is off unless it is asked for, and may do each of its things only under the
    /// account of its own controller.
    fn spawn_controller_manager(&mut self) -> Result<()> {
        let pki = self.at("pki");
        let conf = self.at("controller-manager.conf");
        self.spawn(
            "kube-controller-manager",
            &[
                &format!("--kubeconfig={conf}"),
                &format!("--cluster-signing-cert-file={pki}/ca.crt"),
                &format!("--cluster-signing-key-file={pki}/ca.key"),
                &format!("--service-account-private-key-file={pki}/sa.key"),
                &format!("--root-ca-file={pki}/ca.crt"),
                "--controllers=*,bootstrap-signer-controller,token-cleaner-controller",
                "--use-service-account-credentials",
                "--allocate-node-cidrs",
                "--cluster-cidr=10.244.0.0/16",
                "--leader-elect=false",
                "--bind-address=127.0.0.1",
            ],
        )
    }

    /// All that Covey makes inside a tenant cluster without addons.
    fn objects(&self, version: KubernetesVersion) -> Result<Vec<Value>> {
        let off = json!({ "enabled": false });
        let cluster: TenantCluster = serde_json::from_value(json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "TenantCluster",
            "metadata": { "name": "demo", "namespace": "team-a", "uid": "5f0e0f0a-0000-4000-8000-000000000000" },
            "spec": {
                "version": version.full(),
                "network": { "podCIDR": "10.244.0.0/16", "serviceCIDR": "10.96.0.0/16" },
                "addons": { "coreDNS": off, "kubeProxy": off, "konnectivity": off, "cni": { "type": "none" } },
            },
        }))?;
        let settings = Settings::default();
        let valid = validate::validate(&cluster, &settings);
        let valid = valid.map_err(|problems| anyhow::anyhow!("{problems:?}"))?;
        let addresses = Addresses {
            cluster_ip: self.address.parse()?,
            konnectivity_ip: None,
            endpoint: Some(self.endpoint()),
        };
        let authority = self.authority()?;
        let trust = Trust {
            authority: &authority,
            kubelets: None,
            konnectivity: None,
        };
        let wanted = tenant_objects::wanted(&valid, &settings, &addresses, trust);
        let wanted = wanted.into_iter().map(|object| object.value);
        // In the place of the operator, which approves the first certificate of a node.
        let approves = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": { "name": "approves-nodes" },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                "name": "system:certificates.k8s.io:certificatesigningrequests:nodeclient" },
            "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "Group",
                "name": "system:bootstrappers:kubeadm:default-node-token" }],
        });
        Ok(wanted.chain([approves]).collect())
    }

    pub(crate) fn endpoint(&self) -> EndpointStatus {
        EndpointStatus {
            host: self.address.clone(),
            port: PORT,
        }
    }

    /// Certificate of the authority, as PEM.
    pub(crate) fn authority(&self) -> Result<String> {
        Ok(fs::read_to_string(self.folder.path().join("pki/ca.crt"))?)
    }

    /// Lets a Machine join: gives what it is told, the digest of the authority, and the secret half of its token.
    pub(crate) fn invite(&self, name: &str, uid: &str) -> Result<Invitation> {
        let token = self.token(name, uid)?;
        let machine = user_data::Machine {
            name: name.to_owned(),
            labels: [("tier".to_owned(), "edge".to_owned())].into(),
            ..user_data::Machine::default()
        };
        let authority = self.authority()?;
        let data = user_data::session_data(&self.endpoint(), &authority, &token, &machine)?;
        Ok(Invitation {
            user_data: data.reveal().to_owned(),
            ca: authority_digest(&authority),
            secret: token.secret.reveal().to_owned(),
            token: bootstrap_token::token_secret_name(uid),
        })
    }

    /// What a machine is told that boots for this: cloud-init user data, with the secret half of its token.
    pub(crate) fn user_data(&self, name: &str, uid: &str) -> Result<(String, String)> {
        let token = self.token(name, uid)?;
        let machine = user_data::Machine {
            name: name.to_owned(),
            provider_id: Some(format!("kubevirt://{name}")),
            ..user_data::Machine::default()
        };
        let authority = self.authority()?;
        let data = user_data::user_data(&self.endpoint(), &authority, &token, &machine)?;
        let secret = token.secret.reveal().to_owned();
        Ok((data.reveal().to_owned(), secret))
    }

    /// A token that is good for half an hour.
    fn token(&self, name: &str, uid: &str) -> Result<Token> {
        let mut random = [0; 16];
        random.copy_from_slice(&uid.as_bytes()[..16]);
        let token = Token::from_random(&random, uid);
        let expires = Timestamp::now() + SignedDuration::from_mins(30);
        let secret = bootstrap_token::token_secret(&token, expires, name);
        self.apply(&[secret.value])?;
        Ok(token)
    }

    /// Takes the token away, as the operator does once the node is there.
    pub(crate) fn revoke(&self, invitation: &Invitation) -> Result<()> {
        let secret = ["delete", "secret", "-n", "kube-system", &invitation.token];
        self.kubectl(&secret).map(drop)
    }

    fn apply(&self, objects: &[Value]) -> Result<()> {
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects });
        let file = self.at("objects.json");
        fs::write(&file, list.to_string())?;
        let flags = ["apply", "--server-side", "--force-conflicts", "-f", &file];
        self.kubectl(&flags).map(drop)
    }

    /// Its administrator's.
    pub(crate) fn kubectl(&self, args: &[&str]) -> Result<String> {
        let conf = self.at("super-admin.conf");
        run(
            &self.program("kubectl")?,
            &[&["--kubeconfig", &conf], args].concat(),
        )
    }

    /// A phase of `kubeadm init`.
    fn kubeadm(&self, phase: &[&str]) -> Result<String> {
        run(
            &self.program("kubeadm")?,
            &[&["init", "phase"], phase].concat(),
        )
    }

    fn at(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn program(&self, name: &str) -> Result<PathBuf> {
        match name {
            "etcd" => self.bins.path(name),
            name => self.bins.kubernetes(name, KubernetesVersion::default()),
        }
    }

    fn spawn(&mut self, name: &str, args: &[&str]) -> Result<()> {
        let program = self.program(name)?.display().to_string();
        let within = [format!("--net=/proc/{}/ns/net", self.pid), program];
        let args = args.iter().map(|arg| (*arg).to_owned());
        let all: Vec<_> = within.into_iter().chain(args).collect();
        let log = self.folder.path().join(format!("{name}.log"));
        let started = Process::spawn(name, Path::new("nsenter"), &all, &log)?;
        self.programs.insert(0, started);
        Ok(())
    }

    /// What its programs wrote last, for messages.
    pub(crate) fn logs(&self) -> String {
        let tail = |process: &Process| {
            let log = self.folder.path().join(format!("{}.log", process.name()));
            let text = fs::read_to_string(log).unwrap_or_default();
            let lines: Vec<_> = text.lines().rev().take(40).collect();
            let lines: Vec<_> = lines.into_iter().rev().collect();
            format!("--- {}\n{}\n", process.name(), lines.join("\n"))
        };
        self.programs.iter().map(tail).collect()
    }
}

/// What one Machine needs to join.
pub(crate) struct Invitation {
    /// As Covey's Secret has it.
    pub(crate) user_data: String,
    /// Digest of the authority.
    pub(crate) ca: String,
    /// The secret half of the token.
    pub(crate) secret: String,
    /// Name of the Secret with the token in the tenant cluster.
    token: String,
}

/// Asks until it is so; gives how long that took.
pub(crate) async fn until(what: &str, is_so: impl Fn() -> bool) -> Result<Duration> {
    let begun = Instant::now();
    let mut looks = tokio::time::interval(Duration::from_millis(100));
    let asked = async {
        loop {
            looks.tick().await;
            if is_so() {
                return;
            }
        }
    };
    let asked = tokio::time::timeout(PATIENCE, asked).await;
    asked.with_context(|| format!("it does not become so: {what}"))?;
    Ok(begun.elapsed())
}

fn run(program: &Path, args: &[&str]) -> Result<String> {
    let output = Command::new(program).args(args).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{args:?}: {said}");
    Ok(String::from_utf8(output.stdout)?)
}
