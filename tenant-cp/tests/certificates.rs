//! From wants to Secrets and back, with real keys; and what must never be made anew.
//!
//! Long because authorities that are made, lost, renewed and turned are held against the same Secrets.

mod fixtures;

use std::collections::{BTreeMap, BTreeSet};

use fixtures::{addresses, any_addresses, limits, minimal, offer, validated};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use kit_objects::object::Object;
use pki::{Due, Reason, Want};
use proptest::prelude::*;
use tenant_cp::{
    Settings, Validated,
    certificates::{
        self, Generations, Material, Plan, Problem, SecretData, ServiceAccountKeys, consumers,
        small_authorities,
    },
    generations::authority_name,
    names::{AUTHORITIES, KONNECTIVITY_AUTHORITY},
};

const SERVER: &str = "https://demo.example.com:6443";

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).expect("a time")
}

/// Does what the operator does with a plan.
fn make(wants: &[Want], plan: &Plan, material: &mut Material) {
    pki::renew(wants, &plan.due, &mut material.store, now()).expect("renewed");
    if plan.service_account {
        let (public, private) = pki::issue::key_pair().expect("a key pair");
        let keys = ServiceAccountKeys { public, private };
        material.service_account = Generations::first(keys);
    }
    if plan.encryption {
        let key = pki::issue::random_bytes().expect("random bytes");
        material.encryption = Generations::first(certificates::encryption_key(&key));
    }
}

fn complete(wants: &[Want]) -> Material {
    let mut material = Material::default();
    let plan = certificates::plan(wants, &material, false, now());
    make(wants, &plan, &mut material);
    material
}

fn wants(v: &Validated) -> Vec<Want> {
    certificates::wants(
        v,
        &Settings::default(),
        Some(&addresses("demo.example.com")),
    )
}

fn secrets(v: &Validated, material: &Material) -> SecretData {
    let mut objects = certificates::authority_secrets(v, material);
    objects.extend(certificates::leaf_secrets(
        v,
        material,
        Some(&fixtures::etcd_identity()),
    ));
    objects.extend(tenant_cp::kubeconfig::kubeconfig(
        v,
        &material.store,
        SERVER,
        None,
    ));
    objects
        .iter()
        .map(|object| (object.name.clone(), data(object)))
        .collect()
}

fn data(secret: &Object) -> BTreeMap<String, Vec<u8>> {
    let data: BTreeMap<String, ByteString> =
        serde_json::from_value(secret.value["data"].clone()).expect("data of a Secret");
    data.into_iter()
        .map(|(key, bytes)| (key, bytes.0))
        .collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// Certificates and keys of a bundle or an encryption file; a kubeconfig's certificates in base64.
fn parts(file: &str) -> Vec<String> {
    let end = "-----END CERTIFICATE-----";
    match file.contains(end) {
        true => file
            .split_inclusive(end)
            .map(|part| part.trim().to_owned())
            .collect(),
        false => file
            .lines()
            .filter(|line| !line.contains("certificate-authority-data"))
            .map(str::to_owned)
            .collect(),
    }
}

fn missing(secret: &str) -> Problem {
    Problem {
        secret: secret.to_owned(),
        reason: Reason::Missing,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn what_was_made_and_read_back_is_not_due(v in validated(), a in any_addresses()) {
        let wants = certificates::wants(&v, &Settings::default(), Some(&a));
        let material = complete(&wants);
        let read = certificates::read_store(&secrets(&v, &material));
        prop_assert_eq!(&read, &material);
        prop_assert_eq!(certificates::plan(&wants, &read, true, now()), Plan::default());
    }

    #[test]
    fn any_loss_is_restored_or_reported_and_the_identity_stays(
        lost in proptest::collection::btree_set(0usize..25, 0..25),
    ) {
        let mut v = minimal();
        v.addons.cloud_controller.enabled = true;
        v.storage = Some(offer());
        v.autoscaler = Some(limits());
        v.etcd.events = Some(fixtures::with_events(true));
        let wants = wants(&v);
        let material = complete(&wants);
        let mut secrets = secrets(&v, &material);
        let names: Vec<_> = secrets.keys().cloned().collect();
        prop_assert_eq!(names.len(), 25);
        for index in lost {
            secrets.remove(&names[index]);
        }
        let mut read = certificates::read_store(&secrets);
        let plan = certificates::plan(&wants, &read, true, now());
        make(&wants, &plan, &mut read);
        for name in AUTHORITIES {
            match read.store.get(name) {
                Some(pair) => prop_assert_eq!(pair, &material.store[name]),
                None => prop_assert!(plan.problems.contains(&missing(name))),
            }
        }
        match read.service_account.is_empty() {
            false => prop_assert_eq!(&read.service_account, &material.service_account),
            true => prop_assert!(plan.problems.contains(&missing("service-account"))),
        }
        match read.encryption.is_empty() {
            false => prop_assert_eq!(&read.encryption, &material.encryption),
            true => prop_assert!(plan.problems.contains(&missing("encryption"))),
        }
        // What was made can be kept, so that it is not made again and again.
        for object in certificates::leaf_secrets(&v, &read, Some(&fixtures::etcd_identity())) {
            secrets.insert(object.name.clone(), data(&object));
        }
        let kept = certificates::read_store(&secrets);
        let mut again = certificates::plan(&wants, &kept, true, now()).due;
        again.retain(|due| due.name != "admin");
        prop_assert_eq!(again, []);
        // And where nothing is lost for good, everything is whole again.
        if plan.problems.is_empty() {
            prop_assert_eq!(certificates::plan(&wants, &read, true, now()), Plan::default());
            prop_assert_eq!(certificates::leaf_secrets(&v, &read, Some(&fixtures::etcd_identity())).len(), consumers().chain(small_authorities()).count());
        }
    }

    #[test]
    fn another_generation_only_adds(v in validated(), a in any_addresses(), of in 0usize..9) {
        let wants = certificates::wants(&v, &Settings::default(), Some(&a));
        let material = complete(&wants);
        let mut turned = material.clone();
        let other = complete(&wants);
        match AUTHORITIES.get(of) {
            Some(name) => {
                let pair = other.store[*name].clone();
                turned.store.insert(authority_name(name, 2), pair);
            }
            None if of == 6 => {
                let keys = other.service_account.active().unwrap().1.clone();
                turned.service_account.insert(2, keys);
            }
            None => {
                let key = other.encryption.active().unwrap().1.clone();
                turned.encryption.insert(2, key);
                // What a rotation made has a Secret of its own.
                if of == 8 {
                    turned.encryption_apart.insert(2);
                }
            }
        }
        let (before, after) = (secrets(&v, &material), secrets(&v, &turned));
        prop_assert_ne!(&before, &after);
        for (name, data) in &before {
            for (key, old) in data {
                let new = after[name].get(key);
                prop_assert!(new.is_some(), "{}/{} is gone", name, key);
                let (old, new) = (text(old), text(new.unwrap()));
                let pair = data.contains_key(&key.replace(".crt", ".key"));
                let grows = key == "value" || key == "encryption.yaml" || (key.ends_with(".crt") && !pair);
                if grows {
                    // What is trusted, or read, stays; whoever signs or is shown is the same.
                    for part in parts(&old) {
                        prop_assert!(new.contains(&part), "{}/{} lost {}", name, key, part);
                    }
                } else {
                    prop_assert_eq!(old, new, "{}/{} changed", name, key);
                }
            }
        }
        prop_assert_eq!(&certificates::read_store(&after), &turned);
        // Nothing is due, and nothing is wrong: who signs is the plan's to say, not the newest.
        prop_assert_eq!(certificates::plan(&wants, &turned, true, now()), Plan::default());
    }

    #[test]
    fn no_secret_makes_the_reading_panic(
        name in "(ca|ca-g2|etcd|apiserver|demo-kubeconfig|encryption|service-account)",
        key in "(ca.crt|ca.key|value|encryption.yaml|x.crt|x.key|.crt|k1|k|sa-k1.pub|sa-k.pub)",
        bytes: Vec<u8>,
    ) {
        let data = SecretData::from([(name, BTreeMap::from([(key, bytes)]))]);
        let _ = certificates::read_store(&data);
    }

    #[test]
    fn no_kubeconfig_makes_the_reading_panic(text in "(users:\n- (user|name):(\n    )?[ -~\n]{0,40}|[ -~\n]{0,80})") {
        let value = BTreeMap::from([("value".to_owned(), text.into_bytes())]);
        let data = SecretData::from([("demo-kubeconfig".to_owned(), value)]);
        prop_assert!(certificates::read_store(&data).store.is_empty());
    }
}

#[test]
fn lost_authority_without_a_copy_stops_only_what_it_would_sign() {
    let v = minimal();
    let wants = wants(&v);
    let mut material = complete(&wants);
    for name in ["etcd-ca", "etcd-0-server", "scheduler"] {
        material.store.remove(name);
    }
    let plan = certificates::plan(&wants, &material, true, now());
    assert_eq!(
        plan.due,
        [Due {
            name: "scheduler".into(),
            reason: Reason::Missing
        }]
    );
    assert_eq!(plan.problems, [missing("etcd-ca")]);
    // Secrets that would be incomplete are left as they are in the cluster.
    let names: Vec<_> = certificates::leaf_secrets(&v, &material, Some(&fixtures::etcd_identity()))
        .into_iter()
        .map(|secret| secret.name)
        .collect();
    assert_eq!(
        names,
        [
            "controller-manager",
            "operator-client",
            "konnectivity-server",
            "konnectivity-ca"
        ]
    );
}

#[test]
fn lost_or_spoilt_or_old_small_authority_is_made_anew_with_what_it_signed() {
    let mut v = minimal();
    v.autoscaler = Some(limits());
    let wants = wants(&v);
    let whole = complete(&wants);
    let key = whole.store["etcd-ca"].key.clone();
    let signed: [(&str, &[&str]); 2] = [
        (KONNECTIVITY_AUTHORITY, &["konnectivity-server"]),
        (
            "autoscaler-ca",
            &["autoscaler-server", "cluster-autoscaler-client"],
        ),
    ];
    for (authority, leafs) in signed {
        let want = wants.iter().find(|want| want.name == authority).unwrap();
        let nearly = SignedDuration::from_hours(i64::from(want.lifetime_hours) * 3 / 4);
        let old = pki::issue(want, None, now() - nearly).expect("an authority");
        let spoilt = pki::KeyPair {
            key: key.clone(),
            ..whole.store[authority].clone()
        };
        for spoil in [None, Some(spoilt), Some(old)] {
            let mut material = whole.clone();
            match spoil {
                None => material.store.remove(authority),
                Some(pair) => material.store.insert(authority.into(), pair),
            };
            let plan = certificates::plan(&wants, &material, true, now());
            let due: Vec<_> = plan.due.iter().map(|due| due.name.as_str()).collect();
            assert_eq!(due, [&[authority], leafs].concat());
            make(&wants, &plan, &mut material);
            assert_eq!(certificates::plan(&wants, &material, true, now()).due, []);
            assert_ne!(material.store[authority], whole.store[authority]);
        }
    }
}

#[test]
fn turned_authority_of_the_cluster_is_shown_with_its_cross_certificate_and_read_back() {
    let v = minimal();
    let mut material = complete(&wants(&v));
    let next = certificates::next(&wants(&v), "ca", 2).unwrap();
    assert_eq!(
        (&*next.name, &*next.common_name),
        ("ca-g2", "kubernetes-g2")
    );
    let pair = pki::issue(&next, None, now()).expect("an authority");
    material.store.insert(next.name.clone(), pair);
    certificates::cross(&mut material, &next.name, now()).expect("a cross-certificate");
    let store = material.store.clone();
    let cross = material.crossed["ca-g2"]["ca"].clone();
    assert!(pki::is_crossed(&cross, &store["ca-g2"], &store["ca"]));
    // It is believed, and signs nothing yet.
    let shown = |secrets: &SecretData, leaf: &str| text(&secrets["apiserver"][leaf]);
    let before = secrets(&v, &material);
    let alone = &store["apiserver"].certificate;
    assert_eq!(shown(&before, "apiserver.crt"), *alone);
    assert_eq!(text(&before["ca-g2"]["by-ca.crt"]), cross);
    assert_eq!(certificates::read_store(&before), material);
    // It signs.
    material.signing.insert("ca".to_owned(), 2);
    let turned = certificates::turned(wants(&v), &material);
    let plan = certificates::plan(&turned, &material, true, now());
    let due: Vec<_> = plan.due.iter().map(|due| due.name.as_str()).collect();
    assert_eq!(due, ["apiserver-kubelet-client", "apiserver"]);
    make(&turned, &plan, &mut material);
    let after = secrets(&v, &material);
    for leaf in certificates::OF_CLUSTER {
        let file = shown(&after, &format!("{leaf}.crt"));
        let alone = &material.store[leaf].certificate;
        assert_eq!(pki::first_certificate(&file), (&**alone, &*cross));
    }
    let read = certificates::read_store(&after);
    assert_eq!(
        (&read.store, &read.crossed),
        (&material.store, &material.crossed)
    );
    // Renewed while nobody can say what is wanted it is shown as before.
    let live = certificates::leaf_secrets(&v, &material, None);
    let live = live.iter().find(|it| it.name == "apiserver").unwrap();
    let names = BTreeSet::from(["apiserver".to_owned()]);
    assert_eq!(
        certificates::renewed_secret(&live.value, &read, &names),
        None
    );
    // The one of before is dropped.
    material.forget("ca");
    let last = secrets(&v, &material);
    let alone = &material.store["apiserver"].certificate;
    assert_eq!(shown(&last, "apiserver.crt"), *alone);
}

#[test]
fn without_konnectivity_nothing_of_it_is_kept() {
    let mut v = minimal();
    let material = complete(&wants(&v));
    v.addons.konnectivity.enabled = false;
    let secrets = secrets(&v, &material);
    assert!(secrets.keys().all(|name| !name.starts_with("konnectivity")));
    assert!(!secrets["apiserver"].contains_key("egress-selector.yaml"));
    assert!(
        wants(&v)
            .iter()
            .all(|want| !want.name.starts_with("konnectivity"))
    );
}

#[test]
fn new_tenant_cluster_gets_everything_and_a_crash_in_between_repeats_nothing() {
    let v = minimal();
    let wants = wants(&v);
    let material = complete(&wants);
    let mut secrets = secrets(&v, &material);
    secrets.retain(|name, _| ["ca", "service-account"].contains(&name.as_str()));
    assert!(!certificates::established(&secrets));
    let read = certificates::read_store(&secrets);
    let plan = certificates::plan(&wants, &read, false, now());
    assert!(!plan.service_account && plan.encryption && plan.problems.is_empty());
    assert!(plan.due.iter().all(|due| due.name != "ca"));
    assert!(plan.due.iter().any(|due| due.name == "etcd-ca"));
}

#[test]
fn established_is_what_has_a_secret_of_a_consumer() {
    for name in consumers() {
        let secrets = SecretData::from([(name.to_owned(), BTreeMap::new())]);
        assert!(certificates::established(&secrets));
    }
}

#[test]
fn kubeconfig_changes_with_server_authority_or_administrator_only() {
    let v = minimal();
    let material = complete(&wants(&v));
    let config = |material: &Material, server: &str| {
        tenant_cp::kubeconfig::kubeconfig(&v, &material.store, server, None).expect("a kubeconfig")
    };
    let first = config(&material, SERVER);
    assert_eq!(
        (first.namespace.as_deref(), first.name.as_str()),
        (Some("team-a"), "demo-kubeconfig")
    );
    let mut other = material.clone();
    other.store.remove("scheduler");
    assert_eq!(first, config(&other, SERVER));
    assert_ne!(first.hash(), config(&material, "https://other:6443").hash());
    other
        .store
        .insert("admin".into(), material.store["operator"].clone());
    assert_ne!(first.hash(), config(&other, SERVER).hash());
    other = material.clone();
    other
        .store
        .insert("ca".into(), material.store["etcd-ca"].clone());
    assert_ne!(first.hash(), config(&other, SERVER).hash());
}

#[test]
fn kubeconfig_that_the_user_replaced_is_not_believed() {
    let v = minimal();
    let wants = wants(&v);
    let material = complete(&wants);
    let foreign = complete(&wants);
    let mut secrets = secrets(&v, &material);
    let forged = tenant_cp::kubeconfig::kubeconfig(&v, &foreign.store, SERVER, None).unwrap();
    secrets.insert(forged.name.clone(), data(&forged));
    let read = certificates::read_store(&secrets);
    let plan = certificates::plan(&wants, &read, true, now());
    assert_eq!(
        plan.due,
        [Due {
            name: "admin".into(),
            reason: Reason::SignerChanged
        }]
    );
}

#[test]
fn super_admin_lasts_an_hour_and_is_in_no_list() {
    let want = certificates::super_admin();
    assert_eq!(
        (want.lifetime_hours, want.organizations),
        (1, vec!["system:masters".to_owned()])
    );
    assert!(
        wants(&minimal())
            .iter()
            .all(|other| other.name != want.name)
    );
}

#[test]
fn status_names_every_certificate_and_its_end() {
    let material = complete(&wants(&minimal()));
    let status = certificates::status(&material.store);
    assert_eq!(status.len(), material.store.len());
    assert!(status.is_sorted_by_key(|certificate| certificate.name.clone()));
    let apiserver = status
        .iter()
        .find(|certificate| certificate.name == "apiserver")
        .unwrap();
    assert_eq!(apiserver.not_after, "2028-01-15T07:55:00Z");
}

#[test]
fn nothing_secret_shows_in_debug_output() {
    let material = complete(&wants(&minimal()));
    let text = format!("{material:?}");
    assert!(!text.contains("PRIVATE KEY") && !text.contains("secretbox"));
}

#[test]
fn each_authority_signs_its_own_kind_and_no_other() {
    let mut v = minimal();
    v.addons.cloud_controller.enabled = true;
    v.storage = Some(offer());
    v.autoscaler = Some(limits());
    let mut signed: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for want in wants(&v) {
        if let pki::Signer::By(signer) = want.signer {
            signed.entry(signer).or_default().push(want.name);
        }
    }
    let of = |authority: &str| signed.get(authority).cloned().unwrap_or_default();
    // Kubelets believe clients of `ca`, so nobody else may be one; the kube-apiserver believes none.
    assert_eq!(of("ca"), ["apiserver-kubelet-client", "apiserver"]);
    assert_eq!(of("users-ca"), ["admin"]);
    assert_eq!(of("kubelet-serving-ca"), Vec::<String>::new());
    let machinery = of("client-ca");
    for name in ["operator", "scheduler", "ccm", "csi-attacher", "autoscaler"] {
        assert!(machinery.iter().any(|machine| machine == name), "{name}");
    }
    assert_eq!(
        certificates::super_admin().signer,
        pki::Signer::By("client-ca".into())
    );
    for authority in ["client-ca", "users-ca"] {
        for want in wants(&v)
            .iter()
            .filter(|want| of(authority).contains(&want.name))
        {
            assert!(want.client && !want.server, "{}", want.name);
        }
    }
}

#[test]
fn whoever_signs_clients_is_believed_by_the_api_and_nobody_else() {
    let v = minimal();
    let material = complete(&wants(&v));
    let secrets = secrets(&v, &material);
    let file = |secret: &str, key: &str| text(&secrets[secret][key]);
    let pem = |name: &str| material.store[name].certificate.clone();
    assert_eq!(
        file("apiserver", "clients.crt"),
        pem("client-ca") + &pem("users-ca")
    );
    assert_eq!(
        file("apiserver", "kubelet-serving-ca.crt"),
        pem("kubelet-serving-ca")
    );
    // The keys of what is only trusted are nowhere but in the Secrets of the authorities.
    for (name, data) in &secrets {
        let keys: Vec<_> = data
            .keys()
            .filter_map(|key| key.strip_suffix("-ca.key"))
            .chain(data.contains_key("ca.key").then_some("ca"))
            .collect();
        let wanted: &[&str] = match name.as_str() {
            "controller-manager" => &["client", "kubelet-serving", "users"],
            authority if authority.ends_with("ca") => &["ca"],
            _ => &[],
        };
        assert_eq!(keys, wanted, "{name}");
    }
}

#[test]
fn authority_that_is_turned_is_believed_in_all_its_generations_and_one_of_them_signs() {
    let v = minimal();
    let mut material = complete(&wants(&v));
    let turned = |material: &Material| certificates::turned(wants(&v), material);
    assert_eq!(turned(&material), wants(&v), "nothing was turned");
    assert_eq!(certificates::next(&wants(&v), "etcd-ca", 2), None);
    let next = certificates::next(&turned(&material), "users-ca", 2).expect("the second one");
    assert_eq!(next.common_name, "users-ca-g2");
    let pair = pki::issue(&next, None, now()).expect("issued");
    material.store.insert(next.name, pair);
    let due = |material: &Material| {
        let due = certificates::plan(&turned(material), material, true, now()).due;
        let names = due.into_iter().map(|due| due.name);
        names.collect::<Vec<_>>()
    };
    let first = material.clone();
    assert_eq!(due(&first), [""; 0], "the oldest signs");
    material.signing.insert("users-ca".to_owned(), 2);
    assert_eq!(due(&material), ["admin"]);
    let plan = certificates::plan(&turned(&material), &material, true, now());
    make(&turned(&material), &plan, &mut material);
    assert_eq!(due(&material), [""; 0]);

    let secrets = secrets(&v, &material);
    let pem = |name: &str| material.store[name].certificate.clone();
    assert_eq!(
        text(&secrets["apiserver"]["clients.crt"]),
        pem("client-ca") + &pem("users-ca") + &pem("users-ca-g2")
    );
    for file in ["users-ca.key", "users-ca-g2.key"] {
        assert!(secrets["controller-manager"].contains_key(file), "{file}");
        assert!(!secrets["apiserver"].contains_key(file), "{file}");
    }
    // Without the first one everything is as well, and it is not missed.
    material.store.remove("users-ca");
    let plan = certificates::plan(&turned(&material), &material, true, now());
    assert_eq!((plan.due, plan.problems), (Vec::new(), Vec::new()));
    let mut lost = material.clone();
    lost.store.remove("users-ca-g2");
    let plan = certificates::plan(&turned(&lost), &lost, true, now());
    assert_eq!(plan.due, Vec::new(), "nothing that could not be stored");
    let missing: Vec<_> = plan.problems.iter().map(|p| p.secret.as_str()).collect();
    assert_eq!(missing, ["users-ca"]);
}
