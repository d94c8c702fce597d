//! One installation of Covey, in memory or, to be recorded, on a real server.
//!
//! Invariant: tests ask both through the same clients in the same way, so what was recorded on the one
//! is what the other is asked. Time is real: tenants' stand-ins listen on sockets, and a paused clock
//! would run away while they answer.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use api::TenantCluster;
use kit_client::args::ClientArgs;
use kit_client::count::RequestCounter;
use kit_client::untyped;
use kit_objects::rbac::Rule;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use ipnet::IpNet;
use kube::api::{Api, DynamicObject, PostParams};
use kube::client::Body;
use kube::{Client, Config};
use serde_json::{Value, json};
use tenant_cp::Settings;
use tenant_cp::settings::NetworkSettings;
use testkit::fakes::kubelet::Extras;
use testkit::fixtures::{self, PATIENCE, minimal, wait_for};
pub(crate) use testkit::fixtures::{is_settled, tenant_namespace};
use testkit::memory::recording::{Recorder, Recording};
use testkit::memory::{Memory, Young};
use testkit::request::RequestInfo;
use testkit::{FakeKubelet, FaultPlan, ManagementApi, Options, Scope, TenantApis};
use tower::util::{BoxService, MapRequest, MapResponse};
use tower::{BoxError, Layer as _};

/// The user's namespace.
pub(crate) const USERS: &str = "users";
/// The operator's own.
pub(crate) const SYSTEM: &str = "system";
const SERVICE_ACCOUNT: &str = "covey-operator";
/// What is configured of the management cluster's ranges.
const RESERVED: IpNet = IpNet::new_assert(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 0)), 24);
/// Requests that a new binding does not allow yet.
const EARLY: u64 = 3;

/// One installation; everything of it ends with it.
pub(crate) struct Site {
    server: Server,
    /// Has every right.
    pub(crate) admin: Client,
    pub(crate) users: String,
    pub(crate) system: String,
    pub(crate) tenants: TenantApis,
    _kubelet: FakeKubelet,
}

enum Server {
    Memory(Memory),
    Real(Box<ManagementApi>, Recorder),
}

type Wire = BoxService<Request<Body>, Response<UnsyncBoxBody<Bytes, BoxError>>, BoxError>;

impl Server {
    /// A connection, as the operator's user or with every right.
    fn wire(&self, user: bool) -> Result<Wire> {
        let wire = self.whole_wire(user)?;
        Ok(BoxService::new(MapRequest::new(wire, narrowed)))
    }

    fn whole_wire(&self, user: bool) -> Result<Wire> {
        match self {
            Self::Memory(memory) => {
                let service = MapResponse::new(
                    memory.service(user),
                    |response: Response<UnsyncBoxBody<Bytes, Infallible>>| {
                        response.map(|body| body.map_err(|never| match never {}).boxed_unsync())
                    },
                );
                Ok(BoxService::new(service))
            }
            Self::Real(api, recorder) => {
                let config = match user {
                    true => operators_config(api)?,
                    false => api.config_as("testkit-admin", &["system:masters"])?,
                };
                let transport = kit_client::transport::transport(&config)?;
                Ok(BoxService::new(recorder.around(transport)))
            }
        }
    }
}

/// A real server makes a ServiceCIDR of its own, and the one in memory does not.
fn narrowed(mut request: Request<Body>) -> Request<Body> {
    let uri = request.uri();
    if uri.path() == "/apis/networking.k8s.io/v1/servicecidrs" {
        let label = api::names::LABEL_TENANT_NAMESPACE.replace('/', "%2F");
        let text = format!("{uri}&labelSelector={label}%3D{USERS}");
        if let Ok(uri) = text.parse() {
            *request.uri_mut() = uri;
        }
    }
    request
}

fn operators_config(api: &ManagementApi) -> Result<Config> {
    let user = format!("system:serviceaccount:{SYSTEM}:{SERVICE_ACCOUNT}");
    api.config_as(&user, &["system:serviceaccounts"])
}

/// A client with the operator's own layers.
fn client(wire: Wire, plan: &FaultPlan) -> Client {
    // What is tested is not the rate limit.
    let args = ClientArgs {
        qps: 5000.0,
        burst: 10_000,
        ..ClientArgs::default()
    };
    kit_client::connect::assemble(
        plan.layer().layer(wire),
        "default",
        &args,
        &RequestCounter::new(),
    )
}

impl Site {
    /// In memory. Requests of kinds that the recording does not have are refused.
    pub(crate) async fn in_memory(recording: &Recording) -> Result<Self> {
        let young = Young {
            requests: EARLY,
            governed: Arc::new(|info| !is_everywhere(info)),
        };
        let memory = Memory::new().strict(recording.kinds()).young(young);
        Self::on(Server::Memory(memory)).await
    }

    /// On a real server of its own, whose answers are recorded. `None`, loudly, when the programs are
    /// missing.
    pub(crate) async fn real() -> Result<Option<Self>> {
        let Some(api) = ManagementApi::start_with(Options::default()).await? else {
            return Ok(None);
        };
        api.install_kinds().await?;
        let admin = api.admin()?;
        use operator::rbac;
        for (name, rules) in [
            ("covey-operator", rbac::cluster()),
            (rbac::TENANT_NAMESPACE_ROLE, rbac::tenant_namespace()),
            (rbac::USER_NAMESPACE_ROLE, rbac::user_namespace()),
        ] {
            let role = json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                "metadata": { "name": name }, "rules": kit_objects::rbac::render(&rules),
            });
            kit_client::write::apply(&admin, &role, "t1", true).await?;
        }
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": { "name": "covey-operator" },
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                "name": "covey-operator",
            },
            "subjects": [{ "kind": "ServiceAccount", "name": SERVICE_ACCOUNT, "namespace": SYSTEM }],
        });
        kit_client::write::apply(&admin, &binding, "t1", true).await?;
        let user = format!("system:serviceaccount:{SYSTEM}:{SERVICE_ACCOUNT}");
        fixtures::wait_allowed(&admin, &user, "list", "services", None).await?;
        let server = Server::Real(Box::new(api), Recorder::default());
        let site = Self::on(server).await?;
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": { "name": "own-namespace", "namespace": SYSTEM },
            "rules": kit_objects::rbac::render(&rbac::system_namespace()),
        });
        let mut own = binding;
        own["kind"] = json!("RoleBinding");
        // The operator watches bindings by the name of the other one.
        own["metadata"] = json!({ "name": "own-namespace", "namespace": SYSTEM });
        own["roleRef"]["kind"] = json!("Role");
        own["roleRef"]["name"] = json!("own-namespace");
        for object in [role, own] {
            kit_client::write::apply(&admin, &object, "t1", true).await?;
        }
        fixtures::wait_allowed(&admin, &user, "list", "batch/jobs", Some(SYSTEM)).await?;
        Ok(Some(site))
    }

    async fn on(server: Server) -> Result<Self> {
        kit_client::crypto::install_crypto();
        let admin = client(server.wire(false)?, &FaultPlan::none());
        for name in [USERS, SYSTEM] {
            let namespace = json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name },
            });
            let namespaces = untyped::of(kit_objects::kinds::NAMESPACE, &admin, None);
            let object: DynamicObject = serde_json::from_value(namespace)?;
            namespaces.create(&PostParams::default(), &object).await?;
        }
        let scope = Scope::of(USERS);
        Ok(Self {
            tenants: TenantApis::start(&admin, &scope, fixtures::VERSION),
            _kubelet: FakeKubelet::start(&admin, &scope, Extras::all()),
            server,
            admin,
            users: USERS.to_owned(),
            system: SYSTEM.to_owned(),
        })
    }

    /// The operator's client: the binary's own layers above, faults below.
    pub(crate) fn client(&self, plan: &FaultPlan) -> Result<Client> {
        Ok(client(self.server.wire(true)?, plan))
    }

    /// How the operator is configured.
    pub(crate) fn settings(&self) -> Settings {
        Settings {
            operator_namespace: self.system.clone(),
            // Nothing is found here.
            network: NetworkSettings {
                reserved: vec![RESERVED],
                ..NetworkSettings::default()
            },
            ..Settings::default()
        }
    }

    /// The operator's way to tenants.
    pub(crate) fn dial(&self) -> operator::tenant_session::session::Dial {
        let dial = self.tenants.dialer();
        Arc::new(move |namespace: &str, address: SocketAddr| dial(namespace, address))
    }

    /// What was recorded so far; nothing in memory.
    pub(crate) fn recording(&self) -> Recording {
        match &self.server {
            Server::Memory(_) => Recorder::default().recording(),
            Server::Real(_, recorder) => recorder.recording(),
        }
    }

    /// What was asked that was never recorded.
    pub(crate) fn refused(&self) -> Vec<String> {
        match &self.server {
            Server::Memory(memory) => memory.refused(),
            Server::Real(..) => Vec::new(),
        }
    }

    /// Returns once something was asked that was never recorded.
    pub(crate) async fn refuses(&self) {
        match &self.server {
            Server::Memory(memory) => memory.refuses().await,
            Server::Real(..) => std::future::pending().await,
        }
    }

    pub(crate) fn clusters(&self) -> Api<TenantCluster> {
        Api::namespaced(self.admin.clone(), &self.users)
    }

    /// Any kind, in any namespace (none: cluster-scoped).
    pub(crate) fn objects(
        &self,
        kind: kit_objects::kinds::Kind,
        namespace: &str,
    ) -> Api<DynamicObject> {
        untyped::of(kind, &self.admin, Some(namespace))
    }

    /// Creates a TenantCluster with nothing but what is required.
    pub(crate) async fn create(&self, name: &str) -> Result<TenantCluster> {
        let cluster = minimal(&self.users, name);
        let created = self
            .clusters()
            .create(&PostParams::default(), &cluster)
            .await;
        created.context("create the TenantCluster")
    }

    /// Waits until everything is up and nothing is under way.
    pub(crate) async fn wait_ready(&self, name: &str) -> Result<()> {
        let ready = |cluster: Option<&TenantCluster>| cluster.is_some_and(is_settled);
        wait_for(&self.clusters(), name, ready, PATIENCE)
            .await
            .map(drop)
    }

    /// The paths of everything inside a tenant cluster, but for the operator's own Lease: that is written wherever an
    /// API did not answer for a while, so a slow machine has it and a quick one not.
    pub(crate) fn inside(&self, cluster: &TenantCluster) -> Value {
        let mut paths = self.tenants.paths(&tenant_namespace(cluster));
        let lease = format!("/leases/{}", tenant_cp::names::OPERATOR_LEASE);
        paths.retain(|path| !path.ends_with(&lease));
        json!(paths)
    }
}

/// Whether the operator has the right by its ClusterRoleBinding, in every namespace.
fn is_everywhere(info: &RequestInfo) -> bool {
    let resource = match &info.subresource {
        Some(subresource) => format!("{}/{subresource}", info.resource),
        None => info.resource.clone(),
    };
    let allows = |rule: &Rule| {
        let name = info.name.as_deref().unwrap_or_default();
        rule.groups.contains(&info.group.as_str())
            && rule.resources.contains(&resource.as_str())
            && rule.verbs.contains(&info.verb.as_str())
            && (rule.names.is_empty() || rule.names.contains(&name))
    };
    operator::rbac::cluster().iter().any(allows)
}
