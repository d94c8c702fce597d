//! Audit, authorization and tokens: the sentence for each mistake, and what the platform is asked for.

use super::*;
use crate::validate::admit;

fn plane(control_plane: &Value) -> Vec<String> {
    seen(&json!({"spec": {"controlPlane": control_plane}}))
}

fn expected<const N: usize>(field: &str, texts: [&str; N]) -> Vec<String> {
    let all = texts.iter();
    all.map(|text| format!("spec.controlPlane.{field}{text}"))
        .collect()
}

#[test]
fn audit_rules_that_the_api_server_would_not_take_are_refused() {
    let rules = |rules: &Value| plane(&json!({"audit": {"rules": rules}}));
    let fine = json!([
        {"level": "None", "nonResourceURLs": ["/metrics", "/healthz*", "*"]},
        {"level": "Request", "verbs": ["create", "*"], "namespaces": ["", "kube-system"],
         "users": ["Jane Doe <jane@example.com>"], "resources": [
            {"resources": ["pods", "pods/log", "*/status", "pods/*", "*"]},
            {"group": "apps"},
        ]},
    ]);
    assert_eq!(rules(&fine), [""; 0]);
    let wrong = json!([
        {"level": "None", "nonResourceURLs": ["metrics", "/a*b"], "namespaces": ["a"]},
        {"level": "None", "verbs": ["Create"], "namespaces": ["A"], "users": ["a\nb"],
         "resources": [{"group": "Apps", "resources": ["pods/log/more"]}]},
    ]);
    assert_eq!(
        rules(&wrong),
        expected(
            "audit.rules",
            [
                "[0].nonResourceURLs: what has a path is no object: make a rule for paths and another for \
             objects",
                "[0].nonResourceURLs: \"metrics\" is not a path: begin with /, and put a * at the end alone",
                "[0].nonResourceURLs: \"/a*b\" is not a path: begin with /, and put a * at the end alone",
                "[1].users: \"a\\nb\" has a control character in it: remove that",
                "[1].verbs: \"Create\" is not a verb: write one such as create, in lower case",
                "[1].namespaces: \"A\" is not the name of a namespace: use lower-case letters, digits and -",
                "[1].resources[0].group: \"Apps\" is not an API group: write one such as apps, or nothing",
                "[1].resources[0].resources: \"pods/log/more\" is not a resource: write one such as pods or \
             pods/log",
            ]
        )
    );
}

#[test]
fn issuers_that_nobody_could_tell_apart_are_refused() {
    let wrong = json!({
        "authentication": {"issuers": [{"url": "https://login.example.com", "audiences": ["a"]}]},
        "serviceAccounts": {
            "issuer": "https://login.example.com",
            "acceptedIssuers": ["http://a.example", "https://b.example", "https://b.example"],
            "audiences": ["a,b"], "jwksURI": "keys",
        },
    });
    assert_eq!(
        plane(&wrong),
        expected(
            "serviceAccounts",
            [
                ".issuer: https://login.example.com is in spec.controlPlane.authentication.issuers, too, and \
             nobody could tell their tokens apart: remove one of them",
                ".acceptedIssuers[0]: http://a.example is not safe: begin with https://",
                ".acceptedIssuers[2]: https://b.example is named twice: remove one of them",
                ".jwksURI: \"keys\" is not a URL: begin with https:// or http://",
                ".audiences[0]: \"a,b\" cannot be an audience: leave out blanks and commas",
            ]
        )
    );
}

#[test]
fn webhooks_are_the_platforms_to_allow_and_need_the_way_by_the_nodes() {
    let asked = json!({
        "audit": {"webhook": {"url": "https://audit.example.com"}},
        "authorization": {"webhooks": [{"name": "policy", "url": "https://policy.example.com/a"}]},
    });
    let said = |settings: &Settings| {
        let nobody: [TenantCluster; 0] = [];
        let tc = tc(&json!({"spec": {"controlPlane": asked}}));
        let problems = admit(None, &tc, &nobody, settings);
        problems.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let whoever = "have whoever runs the management cluster allow it (config.apiServer";
    assert_eq!(
        said(&Settings::default()),
        [
            format!(
                "spec.controlPlane.audit.webhook: \"https://audit.example.com\" is not allowed here: \
                 remove it, or {whoever}.auditWebhook of the chart)"
            ),
            format!(
                "spec.controlPlane.authorization.webhooks: \"https://policy.example.com/a\" is not \
                 allowed here: remove it, or {whoever}.authorizationWebhooks of the chart)"
            ),
        ]
    );
    let mut settings = Settings::default();
    settings.api_server.audit_webhook = true;
    settings.api_server.authorization_webhooks = true;
    assert_eq!(said(&settings), [""; 0]);
    let alone = seen(&json!({"spec": {
        "controlPlane": asked, "addons": {"konnectivity": {"enabled": false}},
    }}));
    assert_eq!(alone.len(), 2, "{alone:?}");
    let names = plane(&json!({"authorization": {"webhooks": [
        {"name": "rbac", "url": "https://a.example"},
        {"name": "A", "url": "https://me:hunter2@a.example"},
    ]}}));
    assert_eq!(
        names,
        expected(
            "authorization.webhooks",
            [
                "[0].name: rbac is the name of another: choose another one",
                "[1].name: \"A\" is not a DNS name: use lower-case letters, digits, . and -",
                "[1].url: a user or password cannot be given here, where everybody may read it: leave it out",
            ]
        )
    );
}
