//! The VirtualMachine of a Machine, as a whole.
//!
//! Invariant: what is written here is what KubeVirt is sent; `INSTA_UPDATE=always` writes it anew.

#![allow(clippy::unwrap_used)] // helpers of tests, not only the tests themselves

use api::Machine;
use k8s_openapi::api::core::v1::Toleration;
use provider_kubevirt::virtual_machine::{request, virtual_machine};
use providers::Error;
use serde_json::{Value, json};
use tenant_cp::settings::KubeVirtSettings;

fn machine(provider: Value) -> Machine {
    let machine = json!({
        "apiVersion": "covey.dev/v1alpha1",
        "kind": "Machine",
        "metadata": {
            "name": "workers-x2k9p",
            "namespace": "team-a",
            "uid": "4f6a2c1e-8a52-4b2e-9f0b-0d9f6c1b7a11",
        },
        "spec": {
            "clusterName": "demo",
            "clusterUID": "0a1b2c3d-1111-4222-8333-444455556666",
            "poolName": "workers",
            "version": "1.35.4",
            "provider": provider,
            "labels": {"example.com/disk": "fast"},
            "sshAuthorizedKeys": ["ssh-ed25519 AAAA jane@example.com"],
        },
    });
    serde_json::from_value(machine).unwrap()
}

/// With what is asked for stored, as it is before anything is made.
fn asked(mut machine: Machine, settings: &KubeVirtSettings) -> Machine {
    let request = request(&machine, settings).unwrap();
    machine.status.get_or_insert_default().request = Some(request);
    machine
}

#[track_caller]
fn check(name: &str, provider: Value, settings: &KubeVirtSettings) {
    let made = virtual_machine(&asked(machine(provider), settings), settings).unwrap();
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("golden");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_json_snapshot!(name, made));
}

#[test]
fn a_machine_of_defaults() {
    check(
        "defaults",
        json!({"kubevirt": {}}),
        &KubeVirtSettings::default(),
    );
}

#[test]
fn a_machine_with_everything() {
    let settings = KubeVirtSettings {
        node_selector: [("example.com/workers".to_owned(), "yes".to_owned())].into(),
        tolerations: vec![Toleration {
            key: Some("example.com/workers".to_owned()),
            operator: Some("Exists".to_owned()),
            effect: Some("NoSchedule".to_owned()),
            ..Toleration::default()
        }],
        nameservers: vec!["192.0.2.53".parse().unwrap()],
        ..KubeVirtSettings::default()
    };
    let kernel = json!({
        "image": "example.com/kernel:6.1", "kernelPath": "/vmlinuz", "initrdPath": "",
        "kernelArgs": "root=/dev/vda1 console=ttyS0",
    });
    let provider = json!({
        "kubevirt": {
            "cpu": 4, "memory": "8Gi", "image": "example.com/worker:mine", "kernelBoot": kernel,
            "serialConsole": true, "shutdownTimeout": "2m",
            "nodeSelector": {"zone": "a", "example.com/workers": "no"},
            "tolerations": [{"key": "example.com/gpus", "value": "yes", "effect": "NoSchedule"}],
            "dedicatedCpus": true, "hugePages": "1Gi",
            "gpus": [{"deviceName": "nvidia.com/TU104GL_Tesla_T4", "count": 2}],
            "hostDevices": [{"deviceName": "intel.com/qat"}],
            "disks": [{"name": "data", "size": "20Gi", "mountPath": "/var/lib/data"}, {"name": "root", "size": "1Gi"}],
            "networks": [{"name": "networks/storage"}],
        },
    });
    check("everything", provider, &settings);
}

#[test]
fn nothing_of_the_users_login_or_of_a_secret_is_in_it() {
    let settings = KubeVirtSettings::default();
    let made = virtual_machine(
        &asked(machine(json!({"kubevirt": {}})), &settings),
        &settings,
    );
    let text = serde_json::to_string(&made.unwrap()).unwrap();
    assert!(!text.contains("ssh-ed25519"), "{text}");
    assert!(text.contains("workers-x2k9p-user-data"), "{text}");
}

#[test]
fn a_provider_that_is_switched_off_says_how_to_switch_it_on() {
    let off = KubeVirtSettings {
        enabled: false,
        ..KubeVirtSettings::default()
    };
    let error = virtual_machine(&machine(json!({"kubevirt": {}})), &off).unwrap_err();
    assert_eq!(error.reason(), "ProviderNotConfigured");
    assert!(
        error
            .to_string()
            .contains("config.providers.kubevirt.enabled"),
        "{error}"
    );
    let none = virtual_machine(&machine(json!({})), &KubeVirtSettings::default());
    assert!(matches!(none, Err(Error::NoneNamed)));
}

/// A new release of the operator between two tries must not ask for another machine under the same key.
#[test]
fn what_was_stored_is_asked_for_whatever_the_settings_say_since() {
    let mut settings = KubeVirtSettings {
        image: "m.example.com/worker:v{version}".to_owned(),
        ..KubeVirtSettings::default()
    };
    let machine = machine(json!({"kubevirt": {}}));
    let none = virtual_machine(&machine, &settings);
    assert!(
        matches!(none, Err(Error::NoRequest)),
        "nothing is looked up for it"
    );
    let machine = asked(machine, &settings);
    let first = virtual_machine(&machine, &settings).unwrap();
    let asked = request(&machine, &settings).unwrap();
    assert_eq!(asked.image, "m.example.com/worker:v1.35.4");
    assert_eq!(asked.type_.as_deref(), Some("kubevirt-2cpu-4096Mi"));
    settings.image = "m.example.com/newer:v{version}".to_owned();
    settings.kernel.args = "quiet".to_owned();
    assert_ne!(request(&machine, &settings).unwrap(), asked);
    let again = virtual_machine(&machine, &settings).unwrap();
    let json = |vm| serde_json::to_value(vm).unwrap();
    assert_eq!(json(again), json(first));
}
