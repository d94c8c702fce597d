//! From a Host and its claim to what is asked of its machine.
//!
//! Invariant: what a machine is told to join is read when its session begins, by name and in the tenant namespace of
//! the claim's own Machine, and kept nowhere; nothing of it is in an error.

use api::host::HostClaim;
use api::{ConditionType, Host, Machine, Reason, names};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{Api, Client, ResourceExt};
use provider_static::errands::Order;
use provider_static::join::{self, Settings};
use provider_static::life::{Errand, Failure, identity};
use provider_static::plan::claim::Owner;
use tenant_cp::node::user_data::{AUTHORITY, USER_DATA};
use tenant_cp::settings::StaticSettings;
use tokio::sync::OnceCell;

use super::programs;

/// Its UID tells one management cluster from all others, in which two installations of Covey cannot be; it is never
/// made anew, and a restored backup has it.
const OF_INSTALLATION: &str = "kube-system";

/// What is asked for.
pub(super) async fn order(
    client: &Client,
    settings: &StaticSettings,
    installation: &OnceCell<String>,
    host: &Host,
    errand: Errand,
) -> Result<Order, Failure> {
    let inspect = Order::inspect(identity::expected(host));
    let status = host.status.as_ref();
    let claim = status.and_then(|status| status.claim.clone());
    let claim = match (errand, claim) {
        (Errand::Inspect, None) => return Ok(inspect),
        (_, Some(claim)) => claim,
        (_, None) => return Err(failed("no Machine has the Host".to_owned())),
    };
    let mut order = Order {
        errand,
        owner: Owner {
            installation: String::new(),
            tenant_cluster: claim.tenant_cluster_uid.clone(),
            machine: claim.machine_uid.clone(),
        },
        adopts: status.and_then(|status| status.node.clone()),
        ..inspect
    };
    match errand {
        // The UID of the Machine is enough to undo what was done for it, also by another installation's operator.
        Errand::Inspect | Errand::Reset => {}
        Errand::Claim => {
            let read = installation.get_or_try_init(|| installation_uid(client));
            order.owner.installation.clone_from(read.await?);
            order.made_at = Timestamp::now().to_string();
        }
        Errand::Join => {
            let machine = machine_of(client, host, &claim).await?;
            let (user_data, ca) = told(client, &machine).await?;
            let settings = Settings {
                allows_cgroup1: settings.allow_cgroup_v1,
                containerd: settings.containerd_config.clone(),
                programs: programs::archives(settings),
            };
            order.join = match order.adopts {
                Some(_) => join::adoption(&machine, (&user_data, &ca)),
                None => join::parameters(host, &machine, (&user_data, &ca), &settings),
            };
            let sent = settings.programs.for_host(&machine.spec.version, host);
            order.programs = sent.filter(|_| order.adopts.is_none()).cloned();
            order.ca = ca;
        }
    }
    Ok(order)
}

async fn installation_uid(client: &Client) -> Result<String, Failure> {
    let namespaces = Api::<Namespace>::all(client.clone());
    let found = namespaces.get(OF_INSTALLATION).await;
    let found = found.map_err(|error| unread("Namespace", OF_INSTALLATION, &error))?;
    found
        .uid()
        .ok_or_else(|| failed(format!("Namespace {OF_INSTALLATION} has no UID")))
}

/// The claim's own Machine, live: another one of its name is told nothing.
async fn machine_of(client: &Client, host: &Host, claim: &HostClaim) -> Result<Machine, Failure> {
    let namespace = host.namespace().unwrap_or_default();
    let machines = Api::<Machine>::namespaced(client.clone(), &namespace);
    let name = &claim.machine_name;
    let found = machines.get_opt(name).await;
    let found = found.map_err(|error| unread("Machine", name, &error))?;
    let found = found.filter(|machine| machine.uid().as_ref() == Some(&claim.machine_uid));
    found.ok_or_else(|| failed(format!("the Machine {name} of its claim is gone")))
}

/// What the machine is told, and the digest of the authority that its kubelet will believe.
async fn told(client: &Client, machine: &Machine) -> Result<(String, String), Failure> {
    let name = names::user_data_secret(&machine.name_any());
    let secrets = Api::<Secret>::namespaced(client.clone(), &machine.tenant_namespace());
    let found = secrets.get_opt(&name).await;
    let found = found.map_err(|error| unread("Secret", &name, &error))?;
    let ours =
        |secret: &Secret| secret.labels().get(names::LABEL_MACHINE_UID) == machine.uid().as_ref();
    let missing = || {
        failed(format!(
            "the Secret {name} with what the machine is told is not there: delete the Machine to have it replaced"
        ))
    };
    let data = found.filter(ours).and_then(|secret| secret.data);
    let data = data.ok_or_else(missing)?;
    let text = |key: &str| Some(std::str::from_utf8(&data.get(key)?.0).ok()?.to_owned());
    text(USER_DATA).zip(text(AUTHORITY)).ok_or_else(missing)
}

fn unread(kind: &str, name: &str, error: &kube::Error) -> Failure {
    let error = kit_client::errors::chain(error);
    failed(format!(
        "{kind} {name} could not be read, which is tried again by itself: {error}"
    ))
}

/// Nothing was asked of the machine.
fn failed(message: String) -> Failure {
    Failure {
        reason: Reason::TransientFailure,
        message,
        about: ConditionType::Verified,
    }
}
