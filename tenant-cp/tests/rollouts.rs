//! What of the keys and certificates shows in the pods of a control plane, and so makes a rollout.

mod fixtures;

use fixtures::{addresses, minimal};
use serde_json::Value;
use tenant_cp::{
    Settings,
    certificates::{self, Material},
    management_objects,
};

#[test]
fn only_what_is_read_at_the_start_makes_pods_roll_out_when_it_is_renewed() {
    let (v, a, settings) = (minimal(), addresses("x"), Settings::default());
    let wants = certificates::wants(&v, &settings, Some(&a));
    let names = || wants.iter().map(|want| want.name.as_str());
    let template = |material: &Material| {
        let objects = management_objects::workloads(&v, &settings, &a, material);
        ["control-plane", "controllers", "etcd"].map(|name| {
            let object = objects.iter().find(|object| object.name == name).unwrap();
            object.value["spec"]["template"].clone()
        })
    };
    let old = fixtures::material(names(), "old");
    // The control plane, its controllers, etcd.
    let at_start = |name: &str| match name {
        "ca" => [true, true, false],
        "etcd-ca" => [true, false, true],
        "kubelet-serving-ca" => [true, false, false],
        _ => [false; 3],
    };
    let rolls = |material: &Material| {
        let (new, old) = (template(material), template(&old));
        [0, 1, 2].map(|number| new[number] != old[number])
    };
    for name in names() {
        let mut renewed = old.clone();
        let new = fixtures::material([name], "new").store;
        renewed.store.extend(new.clone());
        let expected = match name {
            "konnectivity-server" => [true, false, false],
            _ => at_start(name),
        };
        assert_eq!(rolls(&renewed), expected, "{name}");
        // The same for another generation of an authority, and of nothing else.
        let mut turned = old.clone();
        let later = new.into_values().map(|pair| (format!("{name}-g2"), pair));
        turned.store.extend(later);
        // Who believes whom when authorities of clients, or of front proxies, are turned is seen by a rollout alone.
        let expected = match name {
            "client-ca" | "users-ca" | "front-proxy-ca" => [true, false, false],
            _ => at_start(name),
        };
        assert_eq!(rolls(&turned), expected, "{name}-g2");
    }
    let changes: [fn(&mut Material); 4] = [
        |material| {
            let keys = material.service_account.active().unwrap().1.clone();
            material.service_account.insert(2, keys);
        },
        |material| {
            let mut keys = material.service_account.active().unwrap().1.clone();
            keys.public = "other".to_owned();
            material.service_account.insert(1, keys);
        },
        |material| {
            let key = certificates::encryption_key(&[8; 32]);
            material.encryption.insert(2, key);
        },
        |material| {
            let key = certificates::encryption_key(&[8; 32]);
            material.encryption.insert(1, key);
        },
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut changed = old.clone();
        change(&mut changed);
        // The kube-controller-manager signs with the key of tokens, and encrypts nothing.
        let expected = [true, number < 2, false];
        assert_eq!(rolls(&changed), expected, "change {number}");
    }
}

#[test]
fn authority_of_the_api_is_read_beside_it_by_konnectivity_alone() {
    let (mut v, a, settings) = (minimal(), addresses("x"), Settings::default());
    v.addons.konnectivity.enabled = false;
    let template = |material: &Material| {
        let objects = management_objects::workloads(&v, &settings, &a, material);
        let object = objects.iter().find(|object| object.name == "control-plane");
        object.unwrap().value["spec"]["template"].clone()
    };
    let mut renewed = fixtures::keys();
    let before = template(&renewed);
    renewed
        .store
        .extend(fixtures::material(["ca"], "new").store);
    assert_eq!(template(&renewed), before);
}

#[test]
fn generation_that_signs_machinery_shows_in_the_templates_of_all_who_have_something_of_it() {
    let (v, a, settings) = (minimal(), addresses("x"), Settings::default());
    let wants = certificates::wants(&v, &settings, Some(&a));
    let names = wants.iter().map(|want| want.name.as_str());
    let mut turned = fixtures::material(names, "old");
    let pair = turned.store["client-ca"].clone();
    turned.store.insert("client-ca-g2".to_owned(), pair);
    let mut signs = turned.clone();
    signs.signing.insert("client-ca".to_owned(), 2);
    let template = |material: &Material, name: &str| {
        let objects = management_objects::workloads(&v, &settings, &a, material);
        let object = objects.iter().find(|object| object.name == name).unwrap();
        object.value["spec"]["template"].to_string()
    };
    // konnectivity's server has a certificate of it.
    let servers = "control-plane";
    assert_ne!(template(&signs, servers), template(&turned, servers));
    for (material, signer) in [(&turned, "client-ca"), (&signs, "client-ca-g2")] {
        for (flag, end) in [("cert", "crt"), ("key", "key")] {
            let flag = format!(
                "\"--cluster-signing-kubelet-client-{flag}-file=/etc/kubernetes/{signer}.{end}\""
            );
            let controllers = template(material, "controllers");
            assert!(controllers.contains(&flag), "{flag}: {controllers}");
        }
    }
}

#[test]
fn active_service_account_key_signs_and_all_verify() {
    let (v, a, settings) = (minimal(), addresses("x"), Settings::default());
    let mut material = fixtures::keys();
    let keys = material.service_account.active().unwrap().1.clone();
    material.service_account.insert(2, keys);
    let args = |material: &Material| {
        let objects = management_objects::workloads(&v, &settings, &a, material);
        let names = ["control-plane", "controllers"].iter();
        names
            .filter_map(|name| objects.iter().find(|object| object.name == *name))
            .flat_map(|object| {
                let containers = &object.value["spec"]["template"]["spec"]["containers"];
                containers.as_array().unwrap()
            })
            .flat_map(|container| container["args"].as_array().unwrap())
            .filter_map(Value::as_str)
            .filter(|arg| arg.starts_with("--service-account-") && arg.contains("-key-file"))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let wanted = [
        "--service-account-key-file=/etc/kubernetes/sa-k2.pub",
        "--service-account-key-file=/etc/kubernetes/sa-k1.pub",
        "--service-account-signing-key-file=/etc/kubernetes/sa-k2.key",
        "--service-account-private-key-file=/etc/kubernetes/sa-k2.key",
    ];
    assert_eq!(args(&material), wanted);
    // While not every server verifies with the new one, it signs nothing.
    material.service_account.hold(1);
    let wanted = [
        "--service-account-key-file=/etc/kubernetes/sa-k1.pub",
        "--service-account-key-file=/etc/kubernetes/sa-k2.pub",
        "--service-account-signing-key-file=/etc/kubernetes/sa-k1.key",
        "--service-account-private-key-file=/etc/kubernetes/sa-k1.key",
    ];
    assert_eq!(args(&material), wanted);
}

#[test]
fn kube_apiserver_that_serves_the_minor_before_is_told_that_and_nothing_else_is_changed() {
    let (v, a, settings) = (minimal(), addresses("x"), Settings::default());
    let material = fixtures::material([], "old");
    let emulating = tenant_cp::Validated {
        emulated: Some(34),
        ..v.clone()
    };
    let of = |v| management_objects::workloads(v, &settings, &a, &material);
    for (plain, mut object) in of(&v).into_iter().zip(of(&emulating)) {
        if object.name == "control-plane" {
            let template = &mut object.value["spec"]["template"];
            let args = &mut template["spec"]["containers"][0]["args"];
            let args = args.as_array_mut().unwrap();
            let flag = "--emulated-version=1.34";
            assert!(args.contains(&flag.into()), "{args:?}");
            args.retain(|arg| arg != flag);
            // The hash is of the template.
            template["metadata"] = plain.value["spec"]["template"]["metadata"].clone();
        }
        assert_eq!(object.value["spec"], plain.value["spec"], "{}", plain.name);
    }
}
