//! The CEL rules and the schema of BackupTarget, evaluated without an API server.
//!
//! Invariant: every rule in the schema is refused by at least one case here.

#![allow(clippy::unwrap_used)] // helpers of tests, not only the tests themselves

use serde_json::{Value, json};
use support::{change, check, create, refusals, schema};

mod support;

const ONE: &str = "set exactly one of s3 and claim: backups are either in a bucket, or in a claim of each tenant \
                   cluster's own";
const MOVED: &str = "a BackupTarget cannot change from s3 to claim or back: make another one, and name it in the \
                     tenant clusters' spec.backup.target";
const CLAIM: &str = "claim cannot change: tenant clusters have claims of it already; make another BackupTarget, and \
                     name it in their spec.backup.target";
const ENDPOINT: &str = "endpoint is the URL of the S3 endpoint without a bucket or a path: write \
                        https://s3.example.com or https://192.0.2.10:9000";
const BUCKET: &str = "bucket is a name of 3 to 63 lower-case letters, digits, dots and hyphens that begins and ends \
                      with a letter or digit";
const PREFIX: &str = "prefix has parts of letters, digits, dots, hyphens and underscores with a slash between them, \
                      and neither begins nor ends with one: write covey or platform/covey";
const CA: &str =
    "caBundle is certificates in PEM (-----BEGIN CERTIFICATE-----), and no private key";

fn target(spec: &Value) -> Value {
    let mut spec = spec.clone();
    spec["encryption"] = json!({"keySecret": "backup-key"});
    json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "BackupTarget",
        "metadata": {"name": "main"}, "spec": spec,
    })
}

fn bucket(change: &Value) -> Value {
    let mut s3 = json!({"bucket": "backups", "credentialsSecret": "backup-bucket"});
    for (key, value) in change.as_object().unwrap() {
        s3[key] = value.clone();
    }
    target(&json!({"s3": s3}))
}

fn claim(size: &str) -> Value {
    target(&json!({"claim": {"size": size}}))
}

#[test]
fn a_target_that_cannot_be_meant_is_refused_with_a_sentence() {
    let at = |endpoint: &str| bucket(&json!({"endpoint": endpoint}));
    let named = |name: &str| bucket(&json!({"bucket": name}));
    let below = |prefix: &str| bucket(&json!({"prefix": prefix}));
    let trusts = |pem: &str| bucket(&json!({"caBundle": pem}));
    let both = target(&json!({
        "claim": {"size": "1Gi"}, "s3": {"bucket": "backups", "credentialsSecret": "a"},
    }));
    let neither = target(&json!({}));
    let key = "-----BEGIN CERTIFICATE-----\nMII=\n-----BEGIN PRIVATE KEY-----\n";
    check(
        "BackupTarget",
        &[
            create(both, ONE),
            create(neither, ONE),
            change(bucket(&json!({})), claim("1Gi"), MOVED),
            change(claim("1Gi"), claim("2Gi"), CLAIM),
            create(at("s3.example.com"), ENDPOINT),
            create(at("https://s3.example.com/backups"), ENDPOINT),
            create(at("https://user:word@s3.example.com"), ENDPOINT),
            create(at("file:///etc"), ENDPOINT),
            create(named("Backups"), BUCKET),
            create(named("-backups"), BUCKET),
            create(below("/covey"), PREFIX),
            create(below("covey/"), PREFIX),
            create(below("covey/../other"), PREFIX),
            create(trusts("MII="), CA),
            create(trusts(key), CA),
        ],
    );
}

#[test]
fn what_is_usual_is_let_in_and_a_bucket_may_be_changed() {
    let schema = schema("BackupTarget");
    let full = bucket(&json!({
        "endpoint": "https://[2001:db8::10]:9000", "region": "eu-central-1",
        "prefix": "platform/covey-1.2", "caBundle": "-----BEGIN CERTIFICATE-----\nMII=\n",
    }));
    for new in [
        bucket(&json!({})),
        bucket(&json!({"endpoint": "http://127.0.0.1:7070"})),
        full.clone(),
        claim("20Gi"),
    ] {
        assert_eq!(refusals(&schema, None, &new), [""; 0], "{new}");
    }
    assert_eq!(refusals(&schema, Some(&bucket(&json!({}))), &full), [""; 0]);
    assert_eq!(
        refusals(&schema, Some(&claim("1Gi")), &claim("1Gi")),
        [""; 0]
    );
}

#[test]
fn it_is_of_the_whole_cluster_and_what_is_left_out_is_what_the_comments_say() {
    let crds = api::crds();
    let crd = crds
        .iter()
        .find(|crd| crd.spec.names.kind == "BackupTarget");
    assert_eq!(crd.unwrap().spec.scope, "Cluster");
    let properties = &schema("BackupTarget")["properties"]["spec"]["properties"];
    let default =
        |part: &str, field: &str| properties[part]["properties"][field]["default"].clone();
    assert_eq!(default("s3", "region"), "us-east-1");
    assert_eq!(default("claim", "size"), "10Gi");
    assert_eq!(
        schema("BackupTarget")["properties"]["spec"]["required"],
        json!(["encryption"])
    );
}
