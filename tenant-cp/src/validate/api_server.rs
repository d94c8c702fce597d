//! Validation of what the kube-apiserver is to write down, whom it asks, and what its tokens say: what it
//! would not take it refuses to start with.
//!
//! Invariant: what is let through is what `apiserver/pkg/audit/policy` and
//! `apiserver/pkg/apis/apiserver/validation` let through.

use std::collections::BTreeSet;

use api::tenant_cluster::{AuditRule, ControlPlane};
use api::{Reason, TenantCluster};

use crate::problem::Problem;
use crate::settings::Settings;
use crate::text::{self, url};
use crate::validate::certificate;
use crate::validate::refusal::not_allowed;

const AUDIT: &str = "spec.controlPlane.audit";
const TOKENS: &str = "spec.controlPlane.serviceAccounts";
const WEBHOOKS: &str = "spec.controlPlane.authorization.webhooks";

pub(super) fn check(tc: &TenantCluster, problems: &mut Vec<Problem>) {
    let control_plane = &tc.spec.control_plane;
    let audit = control_plane.audit.as_ref();
    for (number, rule) in audit.iter().flat_map(|audit| &audit.rules).enumerate() {
        check_rule(&format!("{AUDIT}.rules[{number}]"), rule, problems);
    }
    let sink = audit.and_then(|audit| audit.webhook.as_ref());
    if let Some(sink) = sink {
        let field = format!("{AUDIT}.webhook");
        check_webhook(
            &field,
            &sink.url,
            sink.certificate_authority.as_deref(),
            problems,
        );
    }
    let webhooks = &control_plane.authorization.webhooks;
    let mut names = BTreeSet::new();
    for (number, webhook) in webhooks.iter().enumerate() {
        let field = format!("{WEBHOOKS}[{number}]");
        let name = &webhook.name;
        let message = if !text::is_subdomain(name) {
            format!("\"{name}\" is not a DNS name: use lower-case letters, digits, . and -")
        } else if ["node", "rbac"].contains(&name.as_str()) || !names.insert(name) {
            format!("{name} is the name of another: choose another one")
        } else {
            String::new()
        };
        if !message.is_empty() {
            problems.push(Problem::new(
                format!("{field}.name"),
                Reason::NameMalformed,
                message,
            ));
        }
        let authority = webhook.certificate_authority.as_deref();
        check_webhook(&field, &webhook.url, authority, problems);
    }
    if !tc.spec.addons.konnectivity.enabled {
        let asked = [
            (format!("{AUDIT}.webhook"), sink.is_some()),
            (WEBHOOKS.to_owned(), !webhooks.is_empty()),
        ];
        for (field, _) in asked.into_iter().filter(|(_, asked)| *asked) {
            problems.push(Problem::new(
                field,
                Reason::KonnectivityMissing,
                "the API server reaches webhooks from the tenant cluster's nodes, and none without \
                 konnectivity: set spec.addons.konnectivity.enabled to true, or remove it",
            ));
        }
    }
    tokens(control_plane, problems);
}

/// What the platform does not let users have.
pub(super) fn check_policy(tc: &TenantCluster, settings: &Settings, problems: &mut Vec<Problem>) {
    let (control_plane, allowed) = (&tc.spec.control_plane, &settings.api_server);
    let sink = control_plane
        .audit
        .as_ref()
        .and_then(|audit| audit.webhook.as_ref());
    let webhooks = &control_plane.authorization.webhooks;
    let asked = [
        (
            format!("{AUDIT}.webhook"),
            sink.map(|sink| &sink.url)
                .filter(|_| !allowed.audit_webhook),
            "apiServer.auditWebhook",
        ),
        (
            WEBHOOKS.to_owned(),
            webhooks
                .first()
                .map(|webhook| &webhook.url)
                .filter(|_| !allowed.authorization_webhooks),
            "apiServer.authorizationWebhooks",
        ),
    ];
    for (field, url, setting) in asked {
        if let Some(url) = url.filter(|url| url::endpoint(url).is_ok()) {
            let message = not_allowed(url, &[], setting);
            problems.push(Problem::new(field, Reason::WebhookNotAllowed, message));
        }
    }
}

fn check_webhook(field: &str, url: &str, authority: Option<&str>, problems: &mut Vec<Problem>) {
    if let Some(message) = unsafe_url(url) {
        problems.push(Problem::new(
            format!("{field}.url"),
            Reason::URLMalformed,
            message,
        ));
    }
    if let Some(message) = authority.and_then(certificate::problem) {
        let field = format!("{field}.certificateAuthority");
        problems.push(Problem::new(field, Reason::CertificateMalformed, message));
    }
}

fn unsafe_url(address: &str) -> Option<String> {
    match url::endpoint(address) {
        Err(message) => Some(message),
        Ok(_) if !address.starts_with("https://") => {
            Some(format!("{address} is not safe: begin with https://"))
        }
        Ok(_) => None,
    }
}

fn check_rule(field: &str, rule: &AuditRule, problems: &mut Vec<Problem>) {
    let mut add = |name: &str, message: String| {
        problems.push(Problem::new(
            format!("{field}.{name}"),
            Reason::AuditRuleMalformed,
            message,
        ));
    };
    let is_of_objects = !rule.resources.is_empty() || !rule.namespaces.is_empty();
    if is_of_objects && !rule.non_resource_urls.is_empty() {
        let message = "what has a path is no object: make a rule for paths and another for objects";
        add("nonResourceURLs", message.to_owned());
    }
    for path in &rule.non_resource_urls {
        let star = path.find('*').is_some_and(|at| at + 1 < path.len());
        if (!path.starts_with('/') && path != "*") || star || has_odd(path) {
            let message =
                format!("\"{path}\" is not a path: begin with /, and put a * at the end alone");
            add("nonResourceURLs", message);
        }
    }
    for (name, words) in [("users", &rule.users), ("userGroups", &rule.user_groups)] {
        if let Some(word) = words.iter().find(|word| word.chars().any(char::is_control)) {
            let word = word.escape_default();
            add(
                name,
                format!("\"{word}\" has a control character in it: remove that"),
            );
        }
    }
    for verb in rule
        .verbs
        .iter()
        .filter(|verb| !verb.bytes().all(|b| b.is_ascii_lowercase()) && *verb != "*")
    {
        let verb = verb.escape_default();
        add(
            "verbs",
            format!("\"{verb}\" is not a verb: write one such as create, in lower case"),
        );
    }
    let namespaces = rule.namespaces.iter();
    for name in namespaces.filter(|name| !name.is_empty() && !text::is_label(name)) {
        let name = name.escape_default();
        let message = format!(
            "\"{name}\" is not the name of a namespace: use lower-case letters, digits and -"
        );
        add("namespaces", message);
    }
    for (number, of) in rule.resources.iter().enumerate() {
        if !of.group.is_empty() && !text::is_subdomain(&of.group) {
            let group = of.group.escape_default();
            let message =
                format!("\"{group}\" is not an API group: write one such as apps, or nothing");
            add(&format!("resources[{number}].group"), message);
        }
        for resource in of
            .resources
            .iter()
            .filter(|resource| !is_resource(resource))
        {
            let resource = resource.escape_default();
            let message =
                format!("\"{resource}\" is not a resource: write one such as pods or pods/log");
            add(&format!("resources[{number}].resources"), message);
        }
    }
}

/// `pods`, `pods/log`, `pods/*`, `*/log`, `*`.
fn is_resource(text: &str) -> bool {
    let (resource, sub) = text.split_once('/').unwrap_or((text, "*"));
    [resource, sub]
        .iter()
        .all(|part| *part == "*" || text::is_label(part))
}

fn has_odd(text: &str) -> bool {
    text.chars().any(|c| c.is_control() || c.is_whitespace())
}

fn tokens(control_plane: &ControlPlane, problems: &mut Vec<Problem>) {
    let tokens = &control_plane.service_accounts;
    let mut add = |field: String, reason: Reason, message: String| {
        problems.push(Problem::new(format!("{TOKENS}.{field}"), reason, message));
    };
    let accepted = tokens.accepted_issuers.iter().enumerate();
    let accepted = accepted.map(|(number, url)| (format!("acceptedIssuers[{number}]"), url));
    let first = tokens.issuer.iter().map(|url| ("issuer".to_owned(), url));
    let strangers = &control_plane.authentication.issuers;
    let mut seen = BTreeSet::new();
    for (field, url) in first.chain(accepted) {
        if let Some(message) = unsafe_url(url) {
            add(field, Reason::URLMalformed, message);
        } else if url.starts_with("https://kubernetes.default.svc") {
            let message = format!("{url} is believed in any case: remove it");
            add(field, Reason::IssuerIsCluster, message);
        } else if !seen.insert(url) {
            add(
                field,
                Reason::IssuerTwice,
                format!("{url} is named twice: remove one of them"),
            );
        } else if strangers.iter().any(|stranger| stranger.url == *url) {
            let message = format!(
                "{url} is in spec.controlPlane.authentication.issuers, too, and nobody could tell their \
                 tokens apart: remove one of them"
            );
            add(field, Reason::IssuerTwice, message);
        }
    }
    if let Some(message) = tokens.jwks_uri.as_deref().and_then(unsafe_url) {
        add("jwksURI".to_owned(), Reason::URLMalformed, message);
    }
    for (number, audience) in tokens.audiences.iter().enumerate() {
        if audience.contains(',') || has_odd(audience) {
            let audience = audience.escape_default();
            let message =
                format!("\"{audience}\" cannot be an audience: leave out blanks and commas");
            add(
                format!("audiences[{number}]"),
                Reason::AudienceMalformed,
                message,
            );
        }
    }
}
