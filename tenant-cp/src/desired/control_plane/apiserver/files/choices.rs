//! Files of the kube-apiserver that are there for what a user chose: audit and authorization.
//!
//! Invariant: what a user wrote is a value of JSON; where nothing was chosen the file is the constant that it
//! was, or there is none.

use std::collections::BTreeMap;

use api::tenant_cluster::{Audit, AuditLevel, AuditRule, AuthorizationWebhook};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::AUDIT_POLICY;
use crate::names;
use crate::validate::validated::Validated;

/// Never with their bodies, whatever a rule says: whoever reads the log would have them.
const SECRET: &str = "secrets";

/// The audit policy.
pub(crate) fn audit_policy(audit: Option<&Audit>) -> String {
    let rules = audit
        .map(|audit| audit.rules.as_slice())
        .unwrap_or_default();
    if rules.is_empty() {
        return AUDIT_POLICY.to_owned();
    }
    let has_bodies = |rule: &AuditRule| rule.level > AuditLevel::Metadata;
    let first = rules.iter().position(has_bodies).unwrap_or(rules.len());
    let (before, after) = rules.split_at(first);
    let secret = json!({ "level": "Metadata", "resources": [
        { "group": "", "resources": [SECRET, "serviceaccounts/token"] },
        { "group": "authentication.k8s.io", "resources": ["tokenreviews"] },
    ] });
    let secret = (!after.is_empty()).then_some(secret);
    // The fields are called as Kubernetes calls them.
    let rules: Vec<Value> = before
        .iter()
        .map(|rule| json!(rule))
        .chain(secret)
        .chain(after.iter().map(|rule| json!(rule)))
        .collect();
    let policy = json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": rules,
    });
    format!("{policy}\n")
}

/// A webhook as a kubeconfig, which is how the kube-apiserver is told of one.
fn webhook(url: &str, authority: Option<&str>) -> String {
    let mut cluster = json!({ "server": url });
    if let Some(pem) = authority {
        cluster["certificate-authority-data"] = json!(STANDARD.encode(pem));
    }
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "webhook", "cluster": cluster }],
        "users": [{ "name": "apiserver", "user": {} }],
        "contexts": [{ "name": "webhook", "context": { "cluster": "webhook", "user": "apiserver" } }],
        "current-context": "webhook",
    });
    format!("{config}\n")
}

/// Files that are there for what was chosen, by name.
pub(crate) fn files(v: &Validated) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let sink = v.audit.as_ref().and_then(|audit| audit.webhook.as_ref());
    if let Some(sink) = sink {
        let content = webhook(&sink.url, sink.certificate_authority.as_deref());
        files.insert(names::AUDIT_WEBHOOK.to_owned(), content);
    }
    let webhooks = &v.authorization_webhooks;
    for (number, asked) in webhooks.iter().enumerate() {
        let content = webhook(&asked.url, asked.certificate_authority.as_deref());
        files.insert(authorizer_file(number), content);
    }
    if !webhooks.is_empty() {
        let content = authorization(webhooks, names::SECRET_DIR);
        files.insert(names::AUTHORIZATION.to_owned(), content);
    }
    files
}

/// Name of the file of an authorization webhook.
fn authorizer_file(number: usize) -> String {
    format!("authorizer-{number}.yaml")
}

/// Who allows what (apiserver.config.k8s.io/v1, KEP-3221): nodes' own rights and RBAC first, which is what
/// `--authorization-mode` says where there is no webhook. One that fails has no opinion.
fn authorization(webhooks: &[AuthorizationWebhook], folder: &str) -> String {
    let asked = webhooks.iter().enumerate().map(|(number, webhook)| {
        json!({
            "type": "Webhook",
            "name": webhook.name,
            "webhook": {
                "authorizedTTL": "5m",
                "unauthorizedTTL": "30s",
                "timeout": "3s",
                "subjectAccessReviewVersion": "v1",
                "matchConditionSubjectAccessReviewVersion": "v1",
                "failurePolicy": "NoOpinion",
                "connectionInfo": {
                    "type": "KubeConfigFile",
                    "kubeConfigFile": format!("{folder}/{}", authorizer_file(number)),
                },
            },
        })
    });
    let own = [("Node", "node"), ("RBAC", "rbac")];
    let own = own.map(|(type_, name)| json!({ "type": type_, "name": name }));
    let authorizers: Vec<Value> = own.into_iter().chain(asked).collect();
    let configuration = json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AuthorizationConfiguration",
        "authorizers": authorizers,
    });
    format!("{configuration}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels(rules: Value) -> Vec<(String, bool)> {
        let audit = serde_json::from_value(json!({ "rules": rules })).unwrap();
        let policy: Value = serde_json::from_str(&audit_policy(Some(&audit))).unwrap();
        let rules = policy["rules"].as_array().unwrap().iter();
        rules
            .map(|rule| {
                let level = rule["level"].as_str().unwrap().to_owned();
                (level, rule.to_string().contains("tokenreviews"))
            })
            .collect()
    }

    #[test]
    fn bodies_of_secrets_come_before_the_first_rule_that_asks_for_bodies() {
        let is = |level: &str, ours: bool| (level.to_owned(), ours);
        assert_eq!(
            levels(json!([{ "level": "None" }, { "level": "Request" }, { "level": "Metadata" }])),
            [
                is("None", false),
                is("Metadata", true),
                is("Request", false),
                is("Metadata", false)
            ]
        );
        assert_eq!(
            levels(json!([{ "level": "Metadata" }])),
            [is("Metadata", false)]
        );
        assert_eq!(audit_policy(Some(&Audit::default())), AUDIT_POLICY);
        assert_eq!(audit_policy(None), AUDIT_POLICY);
    }

    #[test]
    fn nodes_and_rbac_stay_and_come_first() {
        let webhooks = [AuthorizationWebhook {
            name: "policy".to_owned(),
            url: "https://policy.example.com".to_owned(),
            certificate_authority: None,
        }];
        let read: Value = serde_json::from_str(&authorization(&webhooks, "/d")).unwrap();
        let types: Vec<_> = read["authorizers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|a| &a["type"])
            .collect();
        assert_eq!(types, ["Node", "RBAC", "Webhook"]);
        let file = &read["authorizers"][2]["webhook"]["connectionInfo"]["kubeConfigFile"];
        assert_eq!(file, "/d/authorizer-0.yaml");
    }
}
