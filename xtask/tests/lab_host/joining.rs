//! Joins and resets by the provider's own scripts, with a real kubeadm, kubelet, containerd and OpenRC.
//!
//! Invariant: the machine is clean at the end, and may be claimed by the next one.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use api::{Host, Machine};
use lab::programs::{self, KubernetesVersion, Program};
use provider_static::errands::{Order, run};
use provider_static::join::{self, Settings};
use provider_static::life::{Errand, Outcome};
use provider_static::plan::claim::{Claim, Owner};
use provider_static::plan::cleanliness::Cleanliness;
use provider_static::plan::facts::Facts;
use provider_static::plan::progress::Progress;
use provider_static::programs::{Archive, Archives};
use provider_static::scripts::{Parameters, Script};
use provider_static::session::Session;
use serde_json::json;

use crate::checkout::{Host as LabHost, Lab};
use crate::control_plane::{ControlPlane, Invitation, PATIENCE, until};
use crate::{facts, own_problems, owner, run as run_script};

/// Whether the kubelet comes with the next boot.
const SWITCHED: &str = "if [ -e /etc/runlevels/default/kubelet ]; then result=on; else result=off; fi\n\
                            printf '{\"result\":\"%s\"}\\n' \"$result\"\n";
/// What a lab tells its kubelets of cgroup v1: ordinary machines have nothing of the kind.
const FORGET: &str = "rm -f /etc/default/kubelet\nprintf '{\"result\":\"ok\"}\\n'\n";
/// What an addon for the network puts there, without its programs.
const NETWORK: &str = "mkdir -p /etc/cni/net.d\n\
    echo '{\"cniVersion\":\"1.0.0\",\"name\":\"test\",\"plugins\":[{\"type\":\"loopback\"}]}' > /etc/cni/net.d/10-test.conflist\n\
    printf '{\"result\":\"ok\"}\\n'\n";
/// A container of a pod that runs on, of a program that needs no image.
const CONTAINER: &str = "said=$(ctr -n k8s.io run -d --null-io --rootfs /opt/test pod-1 /pause 2>&1) && said=ok\n\
    printf '{\"result\":\"%s\"}\\n' \"$(printf '%s' \"$said\" | tr -cd 'a-zA-Z0-9 .:/_-')\"\n";
/// Files that hold a text, wherever a node might have left it, and one where it is for certain.
const FIND: Script = Script {
    name: "find",
    text: "found=$(printf '%s' \"$parameters\" | sed 's/.*\"text\":\"//; s/\".*//')\n\
           [ ${#found} = 16 ] || exit 64\n\
           printf '%s' \"$found\" > /tmp/planted\n\
           files=$(grep -rlsF -D skip -- \"$found\" /etc /var /run /root /tmp /home 2> /dev/null | head -n 5 | tr '\\n' ' ' || true)\n\
           rm -f /tmp/planted\n\
           printf '{\"result\":\"%s\"}\\n' \"$files\"\n",
};

/// The Host of the object model that a host of the lab is.
fn host(name: &str, facts: &Facts) -> Result<Host> {
    Ok(serde_json::from_value(json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "Host", "metadata": {"name": name, "namespace": "team-a"},
        "spec": {"address": "192.0.2.10", "user": "root", "sshKeySecretName": "ssh", "hostKeys": ["x"]},
        "status": {"facts": {"machineID": facts.machine_id, "hostKey": "x", "architecture": "amd64", "cpu": 8,
            "memory": "16000Mi", "os": facts.os, "kernel": facts.kernel, "cgroup2": facts.cgroup2,
            "tun": facts.tun, "kubelet": facts.kubelet}},
    }))?)
}

fn machine(name: &str) -> Result<Machine> {
    Ok(serde_json::from_value(json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "Machine", "metadata": {"name": name, "namespace": "team-a"},
        "spec": {"clusterName": "demo", "clusterUID": "tc", "poolName": "w",
            "version": KubernetesVersion::default().full(), "provider": {"static": {}}},
    }))?)
}

/// What the operator asks for.
struct Orders {
    owner: Owner,
    facts: Facts,
    ca: String,
    join: Result<Parameters, join::Error>,
    programs: Option<Archive>,
}

impl Orders {
    /// For the Machine `name`, told this user data.
    fn new(
        name: &str,
        owner: Owner,
        (facts, programs): (&Facts, &Archives),
        (data, ca): (&str, &str),
    ) -> Result<Self> {
        let settings = Settings {
            allows_cgroup1: true,
            programs: programs.clone(),
            ..Settings::default()
        };
        let (host, machine) = (host("edge", facts)?, machine(name)?);
        let told = join::parameters(&host, &machine, (data, ca), &settings);
        let sent = programs.for_host(&machine.spec.version, &host);
        Ok(Self {
            programs: sent.cloned(),
            owner,
            facts: facts.clone(),
            ca: ca.to_owned(),
            join: told,
        })
    }

    fn order(&self, errand: Errand) -> Order {
        Order {
            errand,
            owner: self.owner.clone(),
            made_at: "2026-01-01T00:00:00Z".to_owned(),
            ca: self.ca.clone(),
            join: self.join.clone(),
            programs: self.programs.clone(),
            ..Order::inspect(vec![self.facts.machine_id.clone()])
        }
    }

    /// Asks until it has ended; gives how long that took, too.
    async fn to_its_end(&self, session: &Session, errand: Errand) -> Result<(Outcome, Duration)> {
        let order = self.order(errand);
        let begun = Instant::now();
        let mut looks = tokio::time::interval(Duration::from_millis(200));
        let asked = async {
            loop {
                looks.tick().await;
                match run(session, &order).await? {
                    Outcome::Join(Progress::Working(_) | Progress::Start) => {}
                    Outcome::Reset {
                        progress: Progress::Working(_) | Progress::Start,
                        ..
                    } => {}
                    over => return Ok::<_, anyhow::Error>(over),
                }
            }
        };
        let asked = tokio::time::timeout(PATIENCE, asked).await;
        Ok((asked.context("it does not end")??, begun.elapsed()))
    }

    async fn claim(&self, session: &Session) -> Result<()> {
        let claimed = run(session, &self.order(Errand::Claim)).await?;
        ensure!(claimed == Outcome::Claim(Claim::Ours), "{claimed:?}");
        Ok(())
    }

    /// Ends clean, or it is an error.
    async fn reset(&self, session: &Session) -> Result<Duration> {
        let (undone, took) = self.to_its_end(session, Errand::Reset).await?;
        let clean = Outcome::Reset {
            progress: Progress::Undone,
            clean: Cleanliness::Clean,
            kubelet: self.facts.kubelet.clone(),
        };
        ensure!(undone == clean, "{undone:?}");
        Ok(took)
    }
}

async fn is_switched(session: &Session) -> Result<String> {
    let said = run_script(session, SWITCHED).await?;
    Ok(said.get("result").to_owned())
}

#[tokio::test]
async fn a_join_without_a_tenant_cluster_fails_in_words_and_is_undone() -> Result<()> {
    let Some(lab) = Lab::begin("join-nowhere")? else {
        return Ok(());
    };
    let session = lab.add("edge", &[])?.enter().await?;
    let facts = facts(&session).await?;
    // Nobody listens at the endpoint.
    let data = json!({ "configuration": {
        "apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "JoinConfiguration",
        "discovery": {"bootstrapToken": {"apiServerEndpoint": "127.0.0.1:1", "token": "abcdef.0123456789abcdef",
            "caCertHashes": [format!("sha256:{}", "0".repeat(64))]}},
        "nodeRegistration": {"name": "w-1", "criSocket": "unix:///run/containerd/containerd.sock"},
        "timeouts": {"discovery": "3s"},
    }});
    let orders = Orders::new(
        "w-1",
        owner(),
        (&facts, &Archives::default()),
        (&data.to_string(), "ab12"),
    )?;
    orders.claim(&session).await?;
    let (joined, _) = orders.to_its_end(&session, Errand::Join).await?;
    let Outcome::Join(Progress::Failed(words)) = &joined else {
        bail!("{joined:?}");
    };
    assert!(words.contains("kubeadm join failed"), "{words}");
    // It got as far as to look for the endpoint, with cgroup v1, too.
    assert!(!words.contains("SystemVerification"), "{words}");
    assert!(!words.contains("0123456789abcdef"), "{words}");
    assert_eq!(is_switched(&session).await?, "on");
    orders.reset(&session).await?;
    assert_eq!(is_switched(&session).await?, "off");
    drop(session);
    lab.xtask(&["down"])?;
    Ok(())
}

/// Claim, join, node, reset; says how long they took.
pub(crate) async fn live(
    edge: &LabHost,
    control_plane: &ControlPlane,
    (name, uid): (&str, &str),
    programs: &Archives,
) -> Result<String> {
    let session = edge.enter().await?;
    let facts = facts(&session).await?;
    let is_sent = programs.are_for("amd64");
    ensure!(own_problems(&facts, is_sent).is_empty(), "{facts:?}");
    let inspect = Order::inspect(vec![facts.machine_id.clone()]);
    let Outcome::Seen { clean, .. } = run(&session, &inspect).await? else {
        bail!("it was not seen");
    };
    ensure!(clean == Cleanliness::Clean, "{clean:?}");
    let invitation = control_plane.invite(name, uid)?;
    let owner = Owner {
        machine: uid.to_owned(),
        ..owner()
    };
    let told = (&*invitation.user_data, &*invitation.ca);
    let orders = Orders::new(name, owner, (&facts, programs), told)?;
    ensure!(orders.programs.is_some() == is_sent, "{facts:?}");
    let begun = Instant::now();
    orders.claim(&session).await?;
    let (joined, _) = orders.to_its_end(&session, Errand::Join).await?;
    let is_node = Outcome::Join(Progress::Joined(name.to_owned()));
    ensure!(joined == is_node, "{joined:?}");
    let to_join = begun.elapsed();
    run_script(&session, NETWORK).await?;
    let get = |path: &str| {
        let said = control_plane.kubectl(&["get", "node", name, "-o", &format!("jsonpath={path}")]);
        said.unwrap_or_default()
    };
    let ready = "{.status.conditions[?(@.type==\"Ready\")].status}";
    until("the node is Ready", || get(ready) == "True").await?;
    let to_ready = begun.elapsed();
    assert_eq!(get("{.spec.providerID}"), format!("static://edge/{name}"));
    assert_eq!(get("{.metadata.labels.tier}"), "edge");
    let version = format!("v{}", KubernetesVersion::default());
    assert_eq!(get("{.status.nodeInfo.kubeletVersion}"), version);
    assert_eq!(is_switched(&session).await?, "on");
    assert_token_is_nowhere(&session, &invitation).await?;
    let runs = run_script(&session, CONTAINER).await?;
    assert_eq!(runs.get("result"), "ok");
    let busy = self::facts(&session).await?;
    ensure!(busy.tasks == 1, "{busy:?}");
    // A look after the operator was started anew finds what it found before, though the token is gone.
    control_plane.revoke(&invitation)?;
    let (again, _) = orders.to_its_end(&session, Errand::Join).await?;
    ensure!(again == is_node, "{again:?}");

    let to_reset = orders.reset(&session).await?;
    assert_eq!(is_switched(&session).await?, "off");
    let seen = self::facts(&session).await?;
    ensure!(
        seen.owner.is_none() && seen.tasks == 0 && own_problems(&seen, is_sent).is_empty(),
        "{seen:?}"
    );
    assert_token_is_nowhere(&session, &invitation).await?;
    control_plane.kubectl(&["delete", "node", name])?;
    Ok(format!(
        "joined after {to_join:.1?}, Ready after {to_ready:.1?}, clean again {to_reset:.1?} after its deletion"
    ))
}

async fn assert_token_is_nowhere(session: &Session, invitation: &Invitation) -> Result<()> {
    let told = Parameters::default().secret("text", &invitation.secret);
    let found = session.run(&FIND, &told).await?;
    ensure!(found.get("result").trim() == "/tmp/planted", "{found:?}");
    Ok(())
}

/// A program for a container on the host `edge`, which has no images.
pub(crate) fn plant_pause(lab: &Lab) -> Result<()> {
    let pause = programs::find(&[Program::PAUSE])?.path("pause")?;
    let pid = lab.state()?.ssh_hosts["edge"].host.init.pid;
    let to = Path::new("/proc")
        .join(pid.to_string())
        .join("root/opt/test");
    fs::create_dir_all(&to)?;
    fs::copy(pause, to.join("pause"))?;
    Ok(())
}

#[tokio::test]
async fn a_host_becomes_a_node_is_reset_and_becomes_the_next_one() -> Result<()> {
    let Some(lab) = Lab::begin("join")? else {
        return Ok(());
    };
    let control_plane = ControlPlane::start(&lab).await?;
    let edge = lab.add("edge", &[])?;
    run_script(&edge.enter().await?, FORGET).await?;
    plant_pause(&lab)?;
    for (name, uid) in [
        ("w-1", "0a1b2c3d-0000-4000-8000-000000000001"),
        ("w-2", "1b2c3d4e-0000-4000-8000-000000000002"),
    ] {
        let life = live(&edge, &control_plane, (name, uid), &Archives::default()).await;
        let life = life.with_context(|| control_plane.logs())?;
        eprintln!("{name}: {life}");
    }
    drop(control_plane);
    lab.xtask(&["down"])?;
    Ok(())
}
