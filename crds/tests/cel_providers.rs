//! The CEL rules and the schema of ProviderConfig, evaluated without an API server.
//!
//! Invariant: every rule in the schema is refused by at least one case here.

#![allow(clippy::unwrap_used)] // helpers of tests, not only the tests themselves

use serde_json::{Value, json};
use support::{change, check, create, refusals, schema};

mod support;

const CLOUD: &str = "a ProviderConfig names exactly one cloud: set hetzner, gcp, azure or aws";
const CLOUD_STAYS: &str = "the cloud of a ProviderConfig cannot change: machines are there already; make another \
                           ProviderConfig, and name it in the node pools";
const NOBODY: &str = "nobody is named who makes machines: set credentialsSecretName, or roleARN alone where the platform \
                      lets this namespace take that role on without a key (docs/aws.md)";
const ADDRESS: &str =
    "servers would have no address: set publicIPv4 or publicIPv6, or name a network";
const LOCATION: &str = "location cannot change: machines are there already; make another ProviderConfig, and name it in \
                        the node pools";
const FIRST_KEY: &str = "the first of sshKeys cannot change, because the project is known again by it; add others behind \
                         it, or make another ProviderConfig";
const PROJECT: &str = "project cannot change: machines are there already; make another ProviderConfig, and name it in the \
                       node pools";
const ZONE: &str = "zone cannot change: machines are there already; make another ProviderConfig, and name it in the node \
                    pools";
const SUBSCRIPTION: &str = "subscriptionID cannot change: machines are there already; make another ProviderConfig, and \
                            name it in the node pools";
const GROUP: &str = "resourceGroup cannot change: machines are there already; make another ProviderConfig, and name it in \
                     the node pools";
const REGION: &str = "region cannot change: machines are there already; make another ProviderConfig, and name it in the \
                      node pools";
const ACCOUNT: &str = "status.account of a ProviderConfig cannot change: machines are looked for where they were made; \
                       make another ProviderConfig for another account";

fn config(change: &Value) -> Value {
    let mut hetzner =
        json!({"tokenSecretName": "hetzner", "location": "fsn1", "sshKeys": ["covey"]});
    for (key, value) in change.as_object().unwrap() {
        hetzner[key] = value.clone();
    }
    with_spec(&json!({ "hetzner": hetzner }))
}

fn google(change: &Value) -> Value {
    let mut gcp = json!({"keySecretName": "google", "project": "example", "zone": "europe-west1-b", "subnet": "workers"});
    for (key, value) in change.as_object().unwrap() {
        gcp[key] = value.clone();
    }
    with_spec(&json!({ "gcp": gcp }))
}

const SUBSCRIPTIONS: [&str; 2] = [
    "11111111-0000-4000-8000-000000000001",
    "11111111-0000-4000-8000-000000000002",
];

fn azure(change: &Value) -> Value {
    let group = format!("/subscriptions/{}/resourceGroups/net", SUBSCRIPTIONS[0]);
    let subnet = format!("{group}/providers/Microsoft.Network/virtualNetworks/net/subnets/workers");
    let mut azure = json!({"credentialsSecretName": "azure", "subscriptionID": SUBSCRIPTIONS[0], "resourceGroup": "workers",
        "location": "westeurope", "zone": "1", "subnetID": subnet, "sshKey": "ssh-ed25519 AAAA jane@example.com"});
    for (key, value) in change.as_object().unwrap() {
        azure[key] = value.clone();
    }
    if azure["zone"].is_null() {
        azure.as_object_mut().unwrap().remove("zone");
    }
    with_spec(&json!({ "azure": azure }))
}

fn aws(change: &Value) -> Value {
    let mut aws = json!({"credentialsSecretName": "aws", "region": "eu-central-1", "zone": "eu-central-1a",
        "subnetID": "subnet-0123456789abcdef0"});
    for (key, value) in change.as_object().unwrap() {
        aws[key] = value.clone();
    }
    with_spec(&json!({ "aws": aws }))
}

/// That of AWS without a Secret.
fn without_key(change: &Value) -> Value {
    let mut config = aws(change);
    let spec = config["spec"]["aws"].as_object_mut();
    spec.unwrap().remove("credentialsSecretName");
    config
}

fn with_spec(spec: &Value) -> Value {
    json!({"apiVersion": "covey.dev/v1alpha1", "kind": "ProviderConfig",
        "metadata": {"name": "hetzner", "namespace": "team-a"}, "spec": spec})
}

fn with_more(spec: &Value) -> Value {
    let mut config = config(&json!({}));
    for (key, value) in spec.as_object().unwrap() {
        config["spec"][key] = value.clone();
    }
    config
}

fn of(account: Option<&str>) -> Value {
    let mut config = config(&json!({}));
    config["status"] = match account {
        Some(account) => json!({ "account": account }),
        None => json!({}),
    };
    config
}

#[test]
fn a_wrong_provider_config_is_refused_with_one_sentence_and_every_rule_is_tested() {
    let keys = |keys: &[&str]| config(&json!({ "sshKeys": keys }));
    let hidden = json!({"publicIPv4": false, "publicIPv6": false});
    let mut both = config(&json!({}));
    both["spec"]["gcp"] = google(&json!({}))["spec"]["gcp"].clone();
    let mut all = both.clone();
    all["spec"]["azure"] = azure(&json!({}))["spec"]["azure"].clone();
    let mut two = azure(&json!({}));
    two["spec"]["aws"] = aws(&json!({}))["spec"]["aws"].clone();
    check(
        "ProviderConfig",
        &[
            create(with_spec(&json!({})), CLOUD),
            create(two, CLOUD),
            change(aws(&json!({})), azure(&json!({})), CLOUD_STAYS),
            change(azure(&json!({})), aws(&json!({})), CLOUD_STAYS),
            change(
                aws(&json!({})),
                aws(&json!({"region": "eu-west-1"})),
                REGION,
            ),
            change(
                aws(&json!({})),
                aws(&json!({"zone": "eu-central-1b"})),
                ZONE,
            ),
            create(both, CLOUD),
            create(all, CLOUD),
            change(azure(&json!({})), google(&json!({})), CLOUD_STAYS),
            change(google(&json!({})), azure(&json!({})), CLOUD_STAYS),
            change(
                azure(&json!({})),
                azure(&json!({"subscriptionID": SUBSCRIPTIONS[1]})),
                SUBSCRIPTION,
            ),
            change(
                azure(&json!({})),
                azure(&json!({"resourceGroup": "others"})),
                GROUP,
            ),
            change(
                azure(&json!({})),
                azure(&json!({"location": "northeurope"})),
                LOCATION,
            ),
            change(azure(&json!({})), azure(&json!({"zone": "2"})), ZONE),
            change(azure(&json!({})), azure(&json!({"zone": null})), ZONE),
            change(azure(&json!({"zone": null})), azure(&json!({})), ZONE),
            change(config(&json!({})), google(&json!({})), CLOUD_STAYS),
            change(google(&json!({})), config(&json!({})), CLOUD_STAYS),
            change(
                google(&json!({})),
                google(&json!({"project": "other"})),
                PROJECT,
            ),
            change(
                google(&json!({})),
                google(&json!({"zone": "europe-west1-c"})),
                ZONE,
            ),
            create(without_key(&json!({})), NOBODY),
            create(config(&hidden), ADDRESS),
            change(
                config(&json!({})),
                config(&json!({"location": "hel1"})),
                LOCATION,
            ),
            change(keys(&["a", "b"]), keys(&["b", "a"]), FIRST_KEY),
            change(of(Some("a")), of(Some("b")), ACCOUNT),
            change(of(Some("a")), of(None), ACCOUNT),
        ],
    );
}

#[test]
fn a_right_provider_config_is_let_through() {
    let schema = schema("ProviderConfig");
    let inside = json!({"publicIPv4": false, "publicIPv6": false, "network": "workers"});
    let more = json!({"sshKeys": ["covey", "jane"], "images": {"1.36": "98765432"}, "firewalls": ["closed"],
        "tokenSecretName": "other"});
    for (old, new) in [
        (None, config(&json!({}))),
        (None, google(&json!({}))),
        (None, aws(&json!({}))),
        (
            Some(aws(&json!({}))),
            without_key(&json!({"roleARN": "arn:aws:iam::111111111111:role/covey"})),
        ),
        (
            Some(aws(&json!({}))),
            aws(
                &json!({"credentialsSecretName": "other", "roleARN": "arn:aws-us-gov:iam::111111111111:role/path/covey",
                "subnetID": "subnet-01234567", "securityGroupIDs": ["sg-0123456789abcdef0", "sg-01234567"],
                "publicIPv4": false, "rootDevice": "/dev/sda1", "images": {"1.36": "ami-0123456789abcdef0"}}),
            ),
        ),
        (None, azure(&json!({}))),
        (None, azure(&json!({"zone": null}))),
        (
            Some(azure(&json!({}))),
            azure(
                &json!({"credentialsSecretName": "other", "sshKey": "ssh-rsa AAAA", "publicIPv4": false, "images": {"1.36":
                format!("/subscriptions/{}/resourceGroups/images/providers/Microsoft.Compute/galleries/covey/images/worker/\
                         versions/1.36.0", SUBSCRIPTIONS[1])}}),
            ),
        ),
        (
            Some(google(&json!({}))),
            google(
                &json!({"keySecretName": "other", "subnet": "others", "networkTags": ["workers"], "publicIPv4": false,
                "images": {"1.36": "projects/example.com:p/global/images/worker-1-36"}}),
            ),
        ),
        (None, config(&inside)),
        (Some(config(&json!({}))), config(&more)),
        (
            None,
            with_more(
                &json!({"limits": {"machines": 20, "hourly": "0.50"}, "prices": {"cx32": "0.0113"}}),
            ),
        ),
        (Some(config(&json!({}))), with_more(&json!({"limits": {}}))),
        (Some(of(None)), of(Some("a"))),
        (Some(of(Some("a"))), of(Some("a"))),
    ] {
        assert_eq!(refusals(&schema, old.as_ref(), &new), [""; 0], "{new}");
    }
}
