//! Whom the programs of a control plane believe and what they sign with: a real kube-apiserver and
//! kube-controller-manager of a tenant, with the flags, files and certificates that theirs have, in the
//! middle of a rotation (two generations of authorities that sign, of service account keys and of
//! encryption keys).
//!
//! Long because the control plane that it starts is read together with what is asked of it.
//! Invariant: nothing but ports, folders and addresses is other than in a cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use api::tenant_cluster::EndpointStatus;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::Request;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::authentication::v1::{SelfSubjectReview, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use kit_objects::object::Object;
use kube::api::{Patch, PatchParams, PostParams};
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use kube::{Api, Client};
use operator::tenant_session::budget::Budget;
use operator::tenant_session::requests::apply_in_order;
use operator::tenant_session::session::Session;
use pki::{KeyPair, Signer, Want};
use serde_json::{Value, json};
use tenant_cp::certificates::{self, Generations, Material, ServiceAccountKeys};
use tenant_cp::desired::bootstrap::rbac;
use tenant_cp::generations::{authority_name, bundle, clients};
use tenant_cp::validate::validate;
use tenant_cp::{Addresses, Settings, Validated, management_objects, tenant_objects};
use testkit::certs;
use testkit::ports::unused;
use testkit::process::{Process, Workdir};
use testkit::programs::Programs;
use testkit::waiting::ask_until;

use crate::support::PATIENCE;

fn free() -> Result<SocketAddr> {
    Ok((Ipv4Addr::LOCALHOST, unused()?).into())
}

fn tenant() -> Result<Validated> {
    let spec = json!({ "addons": { "konnectivity": { "enabled": false } } });
    tenant_of(&spec, &Settings::default())
}

/// A tenant cluster whose spec says this, too.
pub(crate) fn tenant_of(spec: &Value, settings: &Settings) -> Result<Validated> {
    let mut cluster = json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "TenantCluster",
        "metadata": { "name": "demo", "namespace": "team-a", "uid": "0a1b2c3d-0000-4000-8000-000000000000" },
        "spec": {
            "version": "1.35.4",
            "network": { "podCIDR": "10.128.0.0/18", "serviceCIDR": "100.64.0.0/20" },
        },
    });
    for (field, value) in spec.as_object().into_iter().flatten() {
        cluster["spec"][field] = value.clone();
    }
    let cluster = serde_json::from_value(cluster)?;
    match validate(&cluster, settings) {
        Ok(valid) => Ok(valid),
        Err(problems) => bail!("{problems:?}"),
    }
}

fn addresses(valid: &Validated) -> Addresses {
    let konnectivity = Ipv4Addr::new(10, 96, 0, 18).into();
    Addresses {
        cluster_ip: Ipv4Addr::new(10, 96, 0, 17).into(),
        konnectivity_ip: valid.addons.konnectivity.enabled.then_some(konnectivity),
        endpoint: Some(EndpointStatus {
            host: "demo.example.com".to_owned(),
            port: 6443,
        }),
    }
}

/// Everything wanted, and of what is turned a second generation beside it.
fn material(wants: &[Want]) -> Result<Material> {
    let now = Timestamp::now();
    let mut material = Material::default();
    let plan = certificates::plan(wants, &material, false, now);
    pki::renew(wants, &plan.due, &mut material.store, now)?;
    for authority in ["ca", "client-ca", "kubelet-serving-ca"] {
        let want = wants.iter().find(|want| want.name == authority);
        let mut want = want.context("not wanted")?.clone();
        want.common_name = format!("{}-g2", want.common_name);
        want.dns_names = vec![want.common_name.clone()];
        let pair = pki::issue(&want, None, now)?;
        material.store.insert(authority_name(authority, 2), pair);
    }
    let keys = || -> Result<ServiceAccountKeys> {
        let (public, private) = pki::issue::key_pair()?;
        Ok(ServiceAccountKeys { public, private })
    };
    let key = || anyhow::Ok(certificates::encryption_key(&pki::issue::random_bytes()?));
    material.service_account = Generations::first(keys()?);
    material.service_account.insert(2, keys()?);
    material.encryption = Generations::first(key()?);
    material.encryption.insert(2, key()?);
    Ok(material)
}

fn secret_files(secrets: &[Object], name: &str) -> Result<BTreeMap<String, String>> {
    let secret = secrets.iter().find(|secret| secret.name == name);
    let data = secret.context("no such Secret")?.value["data"].clone();
    let data: BTreeMap<String, ByteString> = serde_json::from_value(data)?;
    let text = |(name, bytes): (String, ByteString)| Ok((name, String::from_utf8(bytes.0)?));
    data.into_iter().map(text).collect()
}

/// A folder with the files of a Secret, and what a container of the control plane is started with there.
fn program(
    valid: &Validated,
    material: &Material,
    name: &str,
    change: impl Fn(&str) -> Option<String>,
) -> Result<(Workdir, Vec<String>)> {
    let secrets = certificates::leaf_secrets(valid, material, None);
    let (settings, hosts) = (Settings::default(), addresses(valid));
    let workloads = management_objects::workloads(valid, &settings, &hosts, material);
    let dir = Workdir::new()?;
    for (file, content) in secret_files(&secrets, name)? {
        let content = change(&content).unwrap_or(content);
        // Some name others beside them.
        let place = dir.path().display().to_string();
        dir.write(&file, &content.replace("/etc/kubernetes", &place))?;
    }
    let pods = workloads
        .iter()
        .filter(|o| ["control-plane", "controllers"].contains(&o.name.as_str()))
        .map(|o| &o.value["spec"]["template"]["spec"]);
    let mut containers = pods
        .filter_map(|pod| pod["containers"].as_array())
        .flatten();
    let container = containers.find(|container| container["name"] == name);
    let args = container.context("no container")?["args"].as_array();
    let place = dir.path().display().to_string();
    let arg = |arg: &Value| {
        let arg = arg.as_str().unwrap_or_default();
        change(arg).unwrap_or_else(|| {
            arg.replace("/etc/kubernetes", &place)
                .replace("/var/log/kubernetes", &place)
        })
    };
    let args = args.context("no args")?.iter().map(arg).collect();
    Ok((dir, args))
}

/// A program of a control plane, with its folder.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    // It ends before its folder goes.
    process: Process,
    _dir: Workdir,
}

impl Running {
    /// A kube-apiserver of these keys on an etcd that is there already; it may not be ready yet.
    fn api_server(
        valid: &Validated,
        material: &Material,
        (etcd, sockets): (SocketAddr, &Path),
        programs: &Programs,
    ) -> Result<Self> {
        let address = free()?;
        let plugins = format!("unix://{}", sockets.display());
        let (dir, mut args) = program(valid, material, "apiserver", |arg| {
            if arg.contains("unix:///run/kms") {
                return Some(arg.replace("unix:///run/kms", &plugins));
            }
            let (flag, _) = arg.split_once('=')?;
            match flag {
                "--etcd-servers" => Some(format!("{flag}=https://{etcd}")),
                "--secure-port" => Some(format!("{flag}={}", address.port())),
                _ => None,
            }
        })?;
        args.push("--bind-address=127.0.0.1".to_owned());
        let log = dir.path().join("log");
        let process = Process::spawn("kube-apiserver", &programs.kube_apiserver, &args, &log)?;
        Ok(Self {
            address,
            process,
            _dir: dir,
        })
    }

    /// A kube-controller-manager of these keys, on a kube-apiserver.
    fn controller_manager(
        valid: &Validated,
        material: &Material,
        api: SocketAddr,
        programs: &Programs,
    ) -> Result<Self> {
        let (dir, mut args) = program(valid, material, "controller-manager", |text| {
            let server = "server: https://control-plane:6443";
            let is_config = text.contains(server);
            is_config.then(|| text.replace(server, &format!("server: https://{api}")))
        })?;
        // Its kubeconfig names the files where they are mounted.
        let place = dir.path().display().to_string();
        let config = std::fs::read_to_string(dir.path().join("kubeconfig"))?;
        dir.write("kubeconfig", &config.replace("/etc/kubernetes", &place))?;
        args.push("--secure-port=0".to_owned());
        let log = dir.path().join("log");
        let program = &programs.kube_controller_manager;
        let process = Process::spawn("kube-controller-manager", program, &args, &log)?;
        Ok(Self {
            address: api,
            process,
            _dir: dir,
        })
    }

    async fn is_ready(&mut self, material: &Material) -> Result<()> {
        let session = session(material, self.address, &material.store["operator"])?;
        ask_until("the API is ready", PATIENCE * 2, || {
            let ended = self.process.exited().map(|_| self.process.log_tail(20));
            let client = session.client(&Budget::waiting(PATIENCE));
            async move {
                if let Some(log) = ended {
                    bail!(log);
                }
                let ready = Request::get("/readyz").body(Vec::new())?;
                let answer = client?.request_text(ready).await;
                Ok(answer.map(drop).map_err(|e| e.to_string()))
            }
        })
        .await
    }
}

pub(crate) struct ControlPlane {
    valid: Validated,
    pub(crate) material: Material,
    programs: Programs,
    api: SocketAddr,
    etcd_grpc: SocketAddr,
    etcd_http: SocketAddr,
    // They end before the folder of etcd goes.
    controller_manager: Option<Running>,
    api_server: Running,
    _etcd: Process,
    _dir: Workdir,
    sockets: Workdir,
}

impl ControlPlane {
    /// Where sockets of KMS plugins are for its kube-apiservers.
    pub(crate) fn sockets(&self) -> &Path {
        self.sockets.path()
    }

    /// With a second generation of an authority beside the first, which signs.
    pub(crate) fn prepared(&self, authority: &str) -> Result<Material> {
        let mut material = self.material.clone();
        let next = certificates::next(&self.wants(&material), authority, 2);
        let next = next.context("it cannot be turned")?;
        let now = Timestamp::now();
        let pair = pki::issue(&next, None, now)?;
        material.store.insert(next.name.clone(), pair);
        certificates::cross(&mut material, &next.name, now)?;
        Ok(material)
    }

    /// The second generation signs, and what the first one signed is made anew: these certificates alone.
    pub(crate) fn switched(
        &self,
        prepared: &Material,
        (authority, certificates): (&str, &[&str]),
    ) -> Result<Material> {
        let mut material = prepared.clone();
        material.signing.insert(authority.to_owned(), 2);
        let (wants, now) = (self.wants(&material), Timestamp::now());
        let due = certificates::plan(&wants, &material, true, now).due;
        let names: BTreeSet<_> = due.iter().map(|due| due.name.as_str()).collect();
        let wanted: BTreeSet<_> = certificates.iter().copied().collect();
        ensure!(names == wanted, "nothing else is made anew: {names:?}");
        pki::renew(&wants, &due, &mut material.store, now)?;
        Ok(material)
    }

    pub(crate) async fn start() -> Result<Option<Self>> {
        Self::start_of(tenant()?).await
    }

    /// None where the programs are not there.
    pub(crate) async fn start_of(valid: Validated) -> Result<Option<Self>> {
        match Programs::find_or_skip()? {
            Some(programs) => Ok(Some(Self::start_with(valid, &programs).await?)),
            None => Ok(None),
        }
    }

    pub(crate) async fn start_with(valid: Validated, programs: &Programs) -> Result<Self> {
        let (settings, hosts) = (Settings::default(), addresses(&valid));
        let wants = certificates::wants(&valid, &settings, Some(&hosts));
        let material = material(&wants)?;
        let etcd_dir = Workdir::new()?;
        let (grpc, etcd_http, peer) = (free()?, free()?, free()?);
        let member = &material.store["etcd-0-server"];
        let trusted = bundle(&material.store, "etcd-ca").context("no authority")?;
        for (file, content) in [
            ("server.crt", member.certificate.as_str()),
            ("server.key", member.key.reveal()),
            ("etcd-ca.crt", &trusted),
        ] {
            etcd_dir.write(file, content)?;
        }
        let place = etcd_dir.path().display();
        let flags = [
            "--name=etcd-0".to_owned(),
            format!("--data-dir={place}/data"),
            format!("--cert-file={place}/server.crt"),
            format!("--key-file={place}/server.key"),
            format!("--trusted-ca-file={place}/etcd-ca.crt"),
            "--client-cert-auth=true".to_owned(),
            "--unsafe-no-fsync=true".to_owned(),
            format!("--listen-client-http-urls=https://{etcd_http}"),
            format!("--listen-client-urls=https://{grpc}"),
            format!("--advertise-client-urls=https://{grpc}"),
            format!("--listen-peer-urls=http://{peer}"),
            format!("--initial-advertise-peer-urls=http://{peer}"),
            format!("--initial-cluster=etcd-0=http://{peer}"),
        ];
        let log = etcd_dir.path().join("log");
        let etcd = Process::spawn("etcd", &programs.etcd, &flags, &log)?;

        let sockets = Workdir::new()?;
        let mut api_server =
            Running::api_server(&valid, &material, (grpc, sockets.path()), programs)?;
        api_server.is_ready(&material).await?;
        let api = api_server.address;
        let manager = Running::controller_manager(&valid, &material, api, programs)?;
        Ok(Self {
            valid,
            material,
            programs: programs.clone(),
            api,
            etcd_grpc: grpc,
            etcd_http,
            controller_manager: Some(manager),
            api_server,
            _etcd: etcd,
            _dir: etcd_dir,
            sockets,
        })
    }

    /// Another kube-apiserver beside the first one, of these keys, once it is ready.
    pub(crate) async fn server_of(&self, material: &Material) -> Result<Running> {
        let (valid, programs) = (&self.valid, &self.programs);
        let places = (self.etcd_grpc, self.sockets());
        let mut server = Running::api_server(valid, material, places, programs)?;
        server.is_ready(material).await?;
        Ok(server)
    }

    /// Another kube-apiserver takes the place of the first one, which ends.
    pub(crate) fn serve_by(&mut self, server: Running) {
        self.api = server.address;
        self.api_server = server;
    }

    /// The kube-controller-manager is another one, of these keys.
    pub(crate) fn manage_with(&mut self, material: &Material) -> Result<()> {
        let (valid, programs) = (&self.valid, &self.programs);
        self.controller_manager = None;
        let next = Running::controller_manager(valid, material, self.api, programs)?;
        self.controller_manager = Some(next);
        Ok(())
    }

    /// The certificates that are wanted, with these keys.
    pub(crate) fn wants(&self, material: &Material) -> Vec<Want> {
        let wants = certificates::wants(
            &self.valid,
            &Settings::default(),
            Some(&addresses(&self.valid)),
        );
        certificates::turned(wants, material)
    }

    /// The name that a kube-apiserver knows a client by; none where it is not let in.
    pub(crate) async fn user_at(
        &self,
        server: SocketAddr,
        identity: &KeyPair,
    ) -> Result<Option<String>> {
        let session = session(&self.material, server, identity)?;
        self.user(session.client(&Budget::waiting(PATIENCE))?).await
    }

    /// The same, asked by who believes kube-apiservers by these authorities alone.
    pub(crate) async fn user_believing(
        &self,
        server: SocketAddr,
        authorities: &str,
        identity: &KeyPair,
    ) -> Result<Option<String>> {
        let session = Session {
            authority: authorities.to_owned(),
            ..session(&self.material, server, identity)?
        };
        self.user(session.client(&Budget::waiting(PATIENCE))?).await
    }

    /// The name that a kube-apiserver knows the service account of a token by; none where it is not let in.
    pub(crate) async fn user_of_token(
        &self,
        server: SocketAddr,
        token: &str,
    ) -> Result<Option<String>> {
        let authority = bundle(&self.material.store, "ca").context("no authority")?;
        let kubeconfig = serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "a",
            "clusters": [{ "name": "a", "cluster": {
                "server": format!("https://{server}"), "tls-server-name": "kubernetes",
                "certificate-authority-data": STANDARD.encode(authority),
            }}],
            "users": [{ "name": "a", "user": { "token": token } }],
            "contexts": [{ "name": "a", "context": { "cluster": "a", "user": "a" } }],
        }))?;
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
        self.user(Client::try_from(config)?).await
    }

    fn client(&self, identity: &KeyPair) -> Result<Client> {
        let session = session(&self.material, self.api, identity)?;
        Ok(session.client(&Budget::waiting(PATIENCE))?)
    }

    fn signed(&self, signer: &str) -> Result<KeyPair> {
        let want = Want {
            signer: Signer::By(signer.to_owned()),
            ..certificates::super_admin()
        };
        let signer = self.material.store.get(signer);
        Ok(pki::issue(&want, signer, Timestamp::now())?)
    }

    /// The last lines of what the kube-apiserver wrote.
    pub(crate) fn log(&self) -> String {
        self.api_server.process.log_tail(2_000)
    }

    /// Where the first kube-apiserver listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.api
    }

    pub(crate) fn operator(&self) -> Result<Client> {
        self.client(&self.material.store["operator"])
    }

    /// Applies what gives rights inside, as the operator does.
    pub(crate) async fn apply_rights(&self) -> Result<()> {
        let (settings, hosts) = (Settings::default(), addresses(&self.valid));
        let trust = tenant_objects::Trust {
            authority: "",
            kubelets: Some(""),
            konnectivity: None,
        };
        let wanted = tenant_objects::wanted(&self.valid, &settings, &hosts, trust);
        let rights: Vec<_> = wanted.iter().filter(|o| rbac::is_privileged(o)).collect();
        let applied = apply_in_order(&self.administrator()?, &rights).await;
        Ok(applied.map_err(|left| left.error)?)
    }

    /// The administrator at one kube-apiserver.
    pub(crate) fn administrator_at(&self, server: SocketAddr) -> Result<Client> {
        let session = session(&self.material, server, &self.signed("client-ca")?)?;
        Ok(session.client(&Budget::waiting(PATIENCE))?)
    }

    pub(crate) fn administrator(&self) -> Result<Client> {
        self.client(&self.signed("client-ca")?)
    }

    /// A client of its etcd.
    pub(crate) fn etcd(&self) -> Result<Client> {
        let store = &self.material.store;
        let etcd = Session {
            address: self.etcd_http,
            authority: bundle(store, "etcd-ca").context("no authority")?,
            identity: store["etcd-healthcheck-client"].clone(),
            server_name: "etcd-0".to_owned(),
        };
        Ok(etcd.client(&Budget::waiting(PATIENCE))?)
    }

    /// The name that the API knows it by; none where it is not let in.
    async fn user(&self, client: Client) -> Result<Option<String>> {
        let api: Api<SelfSubjectReview> = Api::all(client);
        let review = api
            .create(&PostParams::default(), &SelfSubjectReview::default())
            .await;
        match review {
            Ok(review) => {
                let user = review.status.and_then(|status| status.user_info);
                Ok(user.and_then(|user| user.username))
            }
            Err(kube::Error::Api(status)) if status.code == 401 => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Has a request of a signer approved, and says which authority signed it.
    async fn sign(&self, signer: &str, usage: &str, user: &str, group: &str) -> Result<String> {
        let name = signer.replace('/', "-");
        let request = (name.as_str(), signer, usage);
        self.sign_as(request, (user, group), &self.material).await
    }

    /// The same of a request of another name, signed by one of these keys.
    pub(crate) async fn sign_as(
        &self,
        (name, signer, usage): (&str, &str, &str),
        (user, group): (&str, &str),
        material: &Material,
    ) -> Result<String> {
        // Servers have names, clients need none.
        let names = ["worker.example"];
        let dns = &names[..usize::from(usage == "server auth")];
        let request = certs::request(user, group, dns)?;
        let object = serde_json::from_value(json!({
            "metadata": { "name": name },
            "spec": {
                "signerName": signer, "request": ByteString(request.into_bytes()),
                "usages": ["digital signature", usage],
            },
        }))?;
        let api: Api<CertificateSigningRequest> = Api::all(self.administrator()?);
        api.create(&PostParams::default(), &object).await?;
        let approved = json!({ "status": { "conditions": [{
            "type": "Approved", "status": "True", "reason": "Test", "message": "",
        }]}});
        api.patch_approval(name, &PatchParams::default(), &Patch::Merge(&approved))
            .await?;
        // Another kube-controller-manager waits until the Lease of the one before ends.
        let certificate = ask_until("a certificate", PATIENCE * 2, || {
            let api = self
                .administrator()
                .map(Api::<CertificateSigningRequest>::all);
            async move {
                let status = api?.get(name).await?.status.unwrap_or_default();
                match status.certificate {
                    Some(bytes) => Ok(Ok(String::from_utf8(bytes.0)?)),
                    None => Ok(Err(format!("{:?}", status.conditions))),
                }
            }
        })
        .await?;
        let mut store = material.store.clone();
        let key = pki::Key::new(String::new());
        store.insert("request".to_owned(), KeyPair { certificate, key });
        match pki::as_issued("request", &store)
            .context("nobody signed it")?
            .signer
        {
            Signer::By(signer) => Ok(signer),
            Signer::Own => bail!("it signed itself"),
        }
    }
}

fn session(material: &Material, address: SocketAddr, identity: &KeyPair) -> Result<Session> {
    Ok(Session {
        address,
        authority: bundle(&material.store, "ca").context("no authority")?,
        identity: identity.clone(),
        server_name: "kubernetes".to_owned(),
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_authority_is_believed_for_what_it_is_there_for() -> Result<()> {
    let Some(plane) = ControlPlane::start().await? else {
        return Ok(());
    };
    let store = &plane.material.store;
    // Clients: machinery, the next generation of its authority before it signs anything, and people.
    for (who, wanted) in [
        ("operator", "covey-operator"),
        ("scheduler", "system:kube-scheduler"),
        ("admin", "kubernetes-admin"),
    ] {
        let user = plane.user(plane.client(&store[who])?).await?;
        ensure!(user.as_deref() == Some(wanted), "{who} is {user:?}");
    }
    let later = plane
        .user(plane.client(&plane.signed("client-ca-g2")?)?)
        .await?;
    ensure!(
        later.as_deref() == Some("kubernetes-super-admin"),
        "{later:?}"
    );
    // Whoever signs servers, kubelets' or its own, makes nobody a client, not even of system:masters.
    for signer in [
        "ca",
        "ca-g2",
        "kubelet-serving-ca",
        "etcd-ca",
        "front-proxy-ca",
    ] {
        let user = plane.user(plane.client(&plane.signed(signer)?)?).await?;
        ensure!(user.is_none(), "{signer} signed {user:?}");
    }
    for leaf in ["apiserver-kubelet-client", "front-proxy-client"] {
        let user = plane.user(plane.client(&store[leaf])?).await?;
        ensure!(user.is_none(), "{leaf} is {user:?}");
    }

    // The administrator's kubeconfig as it is given out.
    let server = format!("https://{}", plane.api);
    let secret = tenant_cp::kubeconfig::kubeconfig(&plane.valid, store, &server, None);
    let secret = secret.context("no kubeconfig")?;
    let value = secret.value["data"]["value"].as_str().context("no value")?;
    let kubeconfig = Kubeconfig::from_yaml(&String::from_utf8(STANDARD.decode(value)?)?)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let user = plane.user(Client::try_from(config)?).await?;
    ensure!(user.as_deref() == Some("kubernetes-admin"), "{user:?}");

    // Whom aggregated APIs are told to believe.
    let maps: Api<ConfigMap> = Api::namespaced(plane.administrator()?, "kube-system");
    let map = maps.get("extension-apiserver-authentication").await?;
    let told = map.data.unwrap_or_default();
    let pins = |text: &str| {
        let mut pins = pki::public_key_pins(text).unwrap_or_default();
        pins.sort();
        pins
    };
    let wanted = pins(&clients(store).context("no authorities")?);
    ensure!(
        wanted.len() == 3 && pins(&told["client-ca-file"]) == wanted,
        "{told:?}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_are_signed_by_the_authority_of_their_signer() -> Result<()> {
    let Some(plane) = ControlPlane::start().await? else {
        return Ok(());
    };
    for (signer, usage, user, group, wanted) in [
        (
            "kubernetes.io/kubelet-serving",
            "server auth",
            "system:node:worker",
            "system:nodes",
            "kubelet-serving-ca",
        ),
        (
            "kubernetes.io/kube-apiserver-client-kubelet",
            "client auth",
            "system:node:worker",
            "system:nodes",
            "client-ca",
        ),
        (
            "kubernetes.io/kube-apiserver-client",
            "client auth",
            "jane",
            "developers",
            "users-ca",
        ),
    ] {
        let by = plane.sign(signer, usage, user, group).await?;
        ensure!(by == wanted, "{signer} signs with {by}");
    }
    // What every pod believes: both generations.
    let root = ask_until("kube-root-ca.crt", PATIENCE, || {
        let api = plane.administrator();
        async move {
            let api: Api<ConfigMap> = Api::namespaced(api?, "default");
            let map = api.get_opt("kube-root-ca.crt").await?;
            let data = map.and_then(|map| map.data).unwrap_or_default();
            Ok(data.get("ca.crt").cloned().ok_or("none".to_owned()))
        }
    })
    .await?;
    let wanted = bundle(&plane.material.store, "ca").context("no authority")?;
    ensure!(
        pki::public_key_pins(&root) == pki::public_key_pins(&wanted),
        "{root}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn newest_keys_sign_and_write_and_no_token_outlives_a_day() -> Result<()> {
    let Some(plane) = ControlPlane::start().await? else {
        return Ok(());
    };
    let create = PostParams::default();
    let accounts: Api<ServiceAccount> = Api::namespaced(plane.administrator()?, "default");
    let account = serde_json::from_value(json!({ "metadata": { "name": "probe" } }))?;
    accounts.create(&create, &account).await?;
    let request = TokenRequest {
        spec: TokenRequestSpec {
            expiration_seconds: Some(365 * 24 * 3600),
            ..TokenRequestSpec::default()
        },
        ..TokenRequest::default()
    };
    let token = accounts
        .create_token_request("probe", &create, &request)
        .await?;
    let token = token.status.context("no token")?.token;
    let claims = token.split('.').nth(1).context("not a token")?;
    let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims)?)?;
    let at = |claim: &str| claims[claim].as_i64().unwrap_or_default();
    ensure!(at("exp") - at("iat") == 24 * 3600, "{claims}");

    let client = plane.administrator()?;
    let keys = client.request_text(Request::get("/openid/v1/jwks").body(Vec::new())?);
    let keys: Value = serde_json::from_str(&keys.await?)?;
    let keys = keys["keys"].as_array().cloned().unwrap_or_default();
    ensure!(keys.len() == 2, "both verify: {keys:?}");

    let secrets: Api<Secret> = Api::namespaced(plane.administrator()?, "default");
    let secret = json!({ "metadata": { "name": "hidden" }, "stringData": { "a": "b" } });
    secrets
        .create(&create, &serde_json::from_value(secret)?)
        .await?;
    let key = STANDARD.encode("/registry/secrets/default/hidden");
    let range = Request::post("/v3/kv/range")
        .header("content-type", "application/json")
        .body(json!({ "key": key }).to_string().into_bytes())?;
    let client = plane.etcd()?;
    let found: Value = serde_json::from_str(&client.request_text(range).await?)?;
    let value = found["kvs"][0]["value"].as_str().context("no value")?;
    let value = STANDARD.decode(value)?;
    let prefix = b"k8s:enc:secretbox:v1:k2:";
    ensure!(value.starts_with(prefix), "{:?}", value.get(..32));
    Ok(())
}
