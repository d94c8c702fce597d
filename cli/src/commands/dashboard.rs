//! `covey dashboard`: the pages of the dashboard by way of a port of this machine.
//!
//! Invariant: TLS goes from the browser to the pod; a token is printed only where it was asked for, and is in no address.

use std::process::Stdio;

use insight::description::is_ready;
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams};
use tokio::process::Command;
use tokio::signal::ctrl_c;
use tokio::signal::unix::{SignalKind, signal};

use super::forwarding::{Forward, listen};
use crate::args::Global;
use crate::args::dashboard::Dashboard;
use crate::connect::{connect, token, upgradable};
use crate::exit::{Exit, Failure};
use crate::output::{result, say};
use insight_read::request;

/// Name of the Service, as the chart has it.
const SERVICE: &str = "covey-dashboard";

pub(super) async fn run(global: &Global, args: &Dashboard) -> Result<Exit, Failure> {
    let prepared = tokio::select! {
        prepared = Box::pin(prepare(global, args)) => prepared?,
        _ = ctrl_c() => return Ok(Exit::Interrupted),
    };
    let mut terminated = signal(SignalKind::terminate()).map_err(|error| {
        let what = format!("cannot listen for signals: {error}");
        Failure::new(
            Exit::Failed,
            &what,
            "look at the limits of this process: `ulimit -a`",
        )
    })?;
    let address = format!("https://127.0.0.1:{}/", prepared.port);
    let token = prepared.token.map(|token| token + "\n");
    result(&format!("{address}\n{}", token.unwrap_or_default()))?;
    if !global.quiet {
        say(
            "it is there until you interrupt this (Ctrl-C); log in with a token or a kubeconfig that has one",
        );
    }
    if args.open {
        open(&address);
    }
    tokio::select! {
        () = prepared.forward.run() => Err(Failure::new(
            Exit::Failed,
            "nobody can listen on the port any more",
            "look at the limits of this process: `ulimit -a`",
        )),
        // That is how it is meant to end.
        _ = ctrl_c() => Ok(Exit::Done),
        _ = terminated.recv() => Ok(Exit::Done),
    }
}

/// What is served, and where.
struct Prepared {
    port: u16,
    token: Option<String>,
    forward: Forward,
}

async fn prepare(global: &Global, args: &Dashboard) -> Result<Prepared, Failure> {
    let (client, space) = (connect(global).await?.client, &args.operator_namespace);
    let services: Api<Service> = Api::namespaced(client.clone(), space);
    let act = format!("get the Service {SERVICE} in {space}");
    let service = services.get_opt(SERVICE).await;
    let service = service.map_err(|error| Failure::of(&act, &error))?;
    let service = service.ok_or_else(|| {
        let what = format!("there is no dashboard in {space}");
        let mend = "switch it on in the chart (`dashboard.enabled`, `dashboard.tlsSecretName`; docs/dashboard.md), or name \
the namespace of the operator with `--operator-namespace`";
        Failure::new(Exit::NotFound, &what, mend)
    })?;
    let (labels, target) = target(&service).ok_or_else(|| {
        let what = format!("the Service {SERVICE} in {space} leads to no pods");
        let mend = "install it anew with the chart: `helm upgrade`";
        Failure::new(Exit::Failed, &what, mend)
    })?;
    let pods: Api<Pod> = Api::namespaced(client, space);
    let act = format!("list pods in {space}");
    let all = request::all(&pods, ListParams::default().labels(&labels), 1).await;
    let all = all.map_err(|unread| Failure::unread(&act, &unread))?;
    let found = all.iter().filter(|pod| is_ready(pod));
    let mut found = found.filter_map(|pod| Some((pod.name_any(), port_of(pod, &target)?)));
    let (pod, to) = found.next().ok_or_else(|| {
        let what = format!("no pod of the dashboard is ready in {space}");
        let mend = format!("`kubectl -n {space} describe deployment {SERVICE}`, and `kubectl -n {space} get pods -l {labels}`");
        Failure::new(Exit::Failed, &what, &mend)
    })?;
    let token = match args.token {
        true => Some(own_token(global).await?),
        false => None,
    };
    let (listener, port) = listen(args.port).await?;
    let forward = Forward {
        listener,
        pods: Api::namespaced(upgradable(global).await?, space),
        pod,
        port: to,
    };
    Ok(Prepared {
        port,
        token,
        forward,
    })
}

async fn own_token(global: &Global) -> Result<String, Failure> {
    if global.as_user.is_some() {
        let what = "a token is its owner's, whoever you act as";
        let mend = "leave `--as` out, or log in by a token of theirs";
        return Err(Failure::new(Exit::Usage, what, mend));
    }
    token(global).await?.ok_or_else(|| {
        let what = "this context has no token: it logs in with a client certificate, a password, or not at all";
        let mend = "`kubectl create token NAME` makes one for a ServiceAccount";
        Failure::new(Exit::Failed, what, mend)
    })
}

/// Labels of the pods that a Service leads to, as a selector, and their port.
fn target(service: &Service) -> Option<(String, IntOrString)> {
    let spec = service.spec.as_ref()?;
    let labels = spec.selector.as_ref().filter(|labels| !labels.is_empty())?;
    let labels: Vec<_> = labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
    let port = spec.ports.as_ref()?.first()?;
    let target = port.target_port.clone();
    Some((
        labels.join(","),
        target.unwrap_or(IntOrString::Int(port.port)),
    ))
}

/// The number of a pod's port.
fn port_of(pod: &Pod, target: &IntOrString) -> Option<u16> {
    let name = match target {
        IntOrString::Int(number) => return u16::try_from(*number).ok(),
        IntOrString::String(name) => name,
    };
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let mut ports = containers.flat_map(|container| container.ports.iter().flatten());
    let named = ports.find(|port| port.name.as_ref() == Some(name))?;
    u16::try_from(named.container_port).ok()
}

/// Opens an address in the user's browser; where that cannot be done it stands on the terminal.
fn open(address: &str) {
    let program = match cfg!(target_os = "macos") {
        true => "open",
        false => "xdg-open",
    };
    let mut command = Command::new(program);
    command.arg(address);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    if let Err(error) = command.spawn() {
        say(&format!("cannot run {program}: {error}; open {address}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_service_leads_to_pods_and_to_a_port_by_name_or_number() {
        let service = |port: serde_json::Value| {
            let spec = json!({"selector": {"a": "b", "c": "d"}, "ports": [port]});
            serde_json::from_value::<Service>(json!({ "spec": spec })).unwrap()
        };
        let ports = json!([{"name": "admin", "containerPort": 8080}, {"name": "https", "containerPort": 8443}]);
        let container = json!({"name": "dashboard", "image": "x", "ports": ports});
        let pod: Pod =
            serde_json::from_value(json!({"spec": {"containers": [container]}})).unwrap();
        for (port, number) in [
            (json!({"port": 443, "targetPort": "https"}), Some(8443)),
            (json!({"port": 443, "targetPort": 9443}), Some(9443)),
            (json!({"port": 443}), Some(443)),
            (json!({"port": 443, "targetPort": "http"}), None),
        ] {
            let (labels, target) = target(&service(port)).unwrap();
            assert_eq!(labels, "a=b,c=d");
            assert_eq!(port_of(&pod, &target), number);
        }
        assert_eq!(target(&Service::default()), None);
    }
}
