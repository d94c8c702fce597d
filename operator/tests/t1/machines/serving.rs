//! Serving certificates of kubelets: approved for what the provider says of the Machine, and for
//! nothing else.
//!
//! Invariant: a request that is not ours to judge is left exactly as it is; that it was seen is shown
//! by the answer to one that was made later.

use anyhow::{Context as _, Result};
use k8s_openapi::ByteString;
use serde_json::{Value, json};
use testkit::certs;

use super::World;
use crate::support::PATIENCE;
use crate::support::kubevirt::{Mode, address};

const SERVING: &str = "kubernetes.io/kubelet-serving";

fn path(request: &str) -> String {
    format!("/apis/certificates.k8s.io/v1/certificatesigningrequests/{request}")
}

/// The type and reason of the answer; none while there is none.
fn answer(request: Option<&Value>) -> Option<(String, String)> {
    let condition = &request?["status"]["conditions"][0];
    let text = |key: &str| condition[key].as_str().map(str::to_owned);
    Some((text("type")?, text("reason")?))
}

impl World {
    /// Asks as the kubelet of a node does, for these names and addresses; changed by a merge patch.
    fn ask(&self, request: &str, node: &str, sans: &[&str], change: &Value) -> Result<()> {
        let user = format!("system:node:{node}");
        let pem = certs::request(&user, "system:nodes", sans)?;
        let object = json!({
            "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
            "metadata": { "name": request },
            "spec": {
                "signerName": SERVING, "username": user,
                "groups": ["system:nodes", "system:authenticated"],
                "usages": ["digital signature", "server auth"],
                "request": ByteString(pem.into_bytes()),
            },
        });
        // Whole from the first moment on: it is judged when it is seen.
        let object = merged(object, change);
        assert!(self.site.tenants.put(&self.ns, &path(request), &object));
        Ok(())
    }

    fn request(&self, request: &str) -> Option<Value> {
        self.site.tenants.object(&self.ns, &path(request))
    }

    async fn wait_answer(&self, request: &str, wanted: (&str, &str)) -> Result<()> {
        let is = |object: Option<&Value>| {
            let found = answer(object);
            found.is_some_and(|(type_, reason)| (type_.as_str(), reason.as_str()) == wanted)
        };
        let path = path(request);
        let waited = self.site.tenants.wait(&self.ns, &path, is, PATIENCE).await;
        waited.with_context(|| format!("wanted {wanted:?}"))
    }
}

/// Replaces fields of `spec`, and `status`.
fn merged(mut object: Value, change: &Value) -> Value {
    for (key, value) in change["spec"].as_object().into_iter().flatten() {
        object["spec"][key] = value.clone();
    }
    if let Some(status) = change.get("status") {
        object["status"] = status.clone();
    }
    object
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn request_for_the_machines_own_name_and_address_is_approved() -> Result<()> {
    let Some(world) = World::with_pool("serving", 1).await? else {
        return Ok(());
    };
    let name = world.names().await?.remove(0);
    world.ask("own", &name, &[&name, &address(&name)], &json!({}))?;
    world.wait_answer("own", ("Approved", "CoveyApprove")).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn request_that_names_another_node_or_address_is_denied_and_told() -> Result<()> {
    let Some(world) = World::with_pool("serving-wrong", 2).await? else {
        return Ok(());
    };
    let names = world.names().await?;
    let (own, other) = (&names[0], &names[1]);
    let none = json!({});
    world.ask("name", own, &[own, other, &address(own)], &none)?;
    world.wait_answer("name", ("Denied", "WrongName")).await?;
    world.ask("address", own, &[own, &address(other)], &none)?;
    world
        .wait_answer("address", ("Denied", "WrongAddress"))
        .await?;
    // By whoever can act for the other node: the certificate is for a third.
    let user = json!({ "spec": { "username": format!("system:node:{other}") } });
    world.ask("user", own, &[own, &address(own)], &user)?;
    world
        .wait_answer("user", ("Denied", "WrongSubject"))
        .await?;
    let event = world.site.wait_event(own, "CertificateDenied").await?;
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    world.site.wait_event(other, "CertificateDenied").await?;
    Ok(())
}

/// Findings D3 and S2: the agent in a guest chooses what KubeVirt reports of its interfaces.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn address_that_only_the_guest_reports_gets_no_certificate() -> Result<()> {
    let Some(world) = World::with_pool("serving-guest", 1).await? else {
        return Ok(());
    };
    let name = world.names().await?.remove(0);
    world.guest_reports(&name, &["10.96.0.1"]).await?;
    let none = json!({});
    world.ask("foreign", &name, &[&name, "10.96.0.1"], &none)?;
    world
        .wait_answer("foreign", ("Denied", "WrongAddress"))
        .await?;
    world.ask("own", &name, &[&name, &address(&name)], &none)?;
    world.wait_answer("own", ("Approved", "CoveyApprove")).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_are_not_a_machines_are_left_as_they_are() -> Result<()> {
    let Some(world) = World::with_pool("serving-left", 1).await? else {
        return Ok(());
    };
    let name = world.names().await?.remove(0);
    let sans = [name.as_str(), &address(&name)];
    let denied = json!([{ "type": "Denied", "status": "True", "reason": "Somebody" }]);
    let others = ["client", "person", "decided", "stranger"];
    let client = json!({ "spec": { "signerName": "kubernetes.io/kube-apiserver-client-kubelet" } });
    world.ask("client", &name, &sans, &client)?;
    let person = json!({ "spec": { "username": "jane", "groups": ["system:authenticated"] } });
    world.ask("person", &name, &sans, &person)?;
    let decided = json!({ "status": { "conditions": denied } });
    world.ask("decided", &name, &sans, &decided)?;
    world.ask("stranger", "no-machine", &["no-machine"], &json!({}))?;
    let before = others.map(|request| world.request(request));
    world.ask("own", &name, &sans, &json!({}))?;
    world
        .wait_answer("own", ("Approved", "CoveyApprove"))
        .await?;
    world
        .operator
        .reconcile_pool(&world.site, "workers")
        .await?;
    assert_eq!(others.map(|request| world.request(request)), before);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn request_waits_until_the_provider_reports_the_machines_address() -> Result<()> {
    let Some((world, name)) = World::without_room("serving-early").await? else {
        return Ok(());
    };
    let none = json!({});
    world.ask("early", &name, &[&name, &address(&name)], &none)?;
    // What can never become right is not waited with.
    world.ask("wrong", &name, &["another"], &none)?;
    world.wait_answer("wrong", ("Denied", "WrongName")).await?;
    world
        .operator
        .reconcile_pool(&world.site, "workers")
        .await?;
    assert_eq!(answer(world.request("early").as_ref()), None);
    world.kubevirt.set(Mode::Joining);
    world
        .wait_answer("early", ("Approved", "CoveyApprove"))
        .await
}

const CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bootstrap_token_is_good_for_one_key_of_its_own_machine() -> Result<()> {
    let Some(world) = World::new("token-once").await? else {
        return Ok(());
    };
    world.kubevirt.set(Mode::Mute);
    world.site.create_pool("workers", 1).await?;
    let name = world.only_machine().await?;
    let machine = world.site.machines().get(&name).await?;
    let uid = machine.metadata.uid.unwrap_or_default();
    let by = |id: &str| {
        json!({ "spec": {
            "signerName": CLIENT, "username": format!("system:bootstrap:{id}"),
            "groups": ["system:bootstrappers", "system:authenticated"],
            "usages": ["digital signature", "client auth"],
        } })
    };
    world.ask("stolen", &name, &[], &by("zzzzzz"))?;
    world
        .wait_answer("stolen", ("Denied", "WrongRequestor"))
        .await?;
    let own = by(&tenant_cp::node::bootstrap_token::token_id(&uid));
    world.ask("first", &name, &[], &own)?;
    world
        .wait_answer("first", ("Approved", "CoveyApprove"))
        .await?;
    world.ask("second", &name, &[], &own)?;
    world
        .wait_answer("second", ("Denied", "TokenUsedTwice"))
        .await?;
    world.site.wait_event(&name, "TokenUsedTwice").await?;
    Ok(())
}
