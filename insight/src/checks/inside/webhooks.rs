//! Webhooks of the tenant that nobody answers, and that keep what they match from being written.
//!
//! Invariant: one that fails open, or whose Service is served, keeps nobody from anything.

use k8s_openapi::api::admissionregistration::v1::{RuleWithOperations, WebhookClientConfig};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kit_objects::known::Known;
use kube::ResourceExt as _;

use super::objects::is_served;
use super::{NAMED, Seen};
use crate::check::Check;
use crate::finding::{Finding, Level};
use crate::text;

/// Groups of what has to be written for nodes to join and stay: nodes, pods, Leases.
const GROUPS: [&str; 3] = ["*", "", "coordination.k8s.io"];
/// The label by which a selector may leave namespaces out.
const NAMESPACE: &str = "kubernetes.io/metadata.name";

/// A webhook, of either kind.
struct Hook<'a> {
    name: &'a str,
    client: &'a WebhookClientConfig,
    policy: Option<&'a str>,
    rules: &'a [RuleWithOperations],
    namespaces: Option<&'a LabelSelector>,
}

pub(super) fn check(look: &Seen<'_>) -> Vec<Finding> {
    let check = Check::TenantWebhooks;
    let what = "which webhooks there are";
    let (judge, change) = (&look.inside.validating, &look.inside.mutating);
    let all = look
        .list(judge, check, what)
        .and_then(|judge| Ok((judge, look.list(change, check, what)?)));
    let (judge, change) = match all {
        Ok(all) => all,
        Err(found) => return found,
    };
    let Known::Known(slices) = &look.inside.slices else {
        return Vec::new();
    };
    let judge = judge.iter().flat_map(|one| {
        one.webhooks.iter().flatten().map(move |hook| {
            (
                one.name_any(),
                Hook {
                    name: &hook.name,
                    client: &hook.client_config,
                    policy: hook.failure_policy.as_deref(),
                    rules: hook.rules.as_deref().unwrap_or_default(),
                    namespaces: hook.namespace_selector.as_ref(),
                },
            )
        })
    });
    let change = change.iter().flat_map(|one| {
        one.webhooks.iter().flatten().map(move |hook| {
            (
                one.name_any(),
                Hook {
                    name: &hook.name,
                    client: &hook.client_config,
                    policy: hook.failure_policy.as_deref(),
                    rules: hook.rules.as_deref().unwrap_or_default(),
                    namespaces: hook.namespace_selector.as_ref(),
                },
            )
        })
    });
    let dead = judge.chain(change).filter_map(|(of, hook)| {
        let service = hook.client.service.as_ref()?;
        let is_dead = !is_served(slices, &service.namespace, &service.name);
        let fails = hook.policy.is_none_or(|policy| policy == "Fail");
        let told = format!(
            "{of} ({}), Service {}/{}",
            hook.name, service.namespace, service.name
        );
        (is_dead && fails).then(|| (told, blocks(&hook)))
    });
    let dead: Vec<_> = dead.collect();
    if dead.is_empty() {
        return Vec::new();
    }
    let blocks = dead.iter().any(|(_, blocks)| *blocks);
    let mut names: Vec<_> = dead.iter().map(|(told, _)| told.as_str()).collect();
    names.sort_unstable();
    let names = text::names(names, NAMED);
    let (level, cause) = match blocks {
        true => (
            Level::Error,
            format!(
                "webhooks of the tenant that nobody answers keep nodes or pods of kube-system from being written: {names}"
            ),
        ),
        false => (
            Level::Warning,
            format!(
                "webhooks of the tenant that nobody answers keep what they match from being written: {names}"
            ),
        ),
    };
    let mend = "bring the pods of the Service back, or delete the configuration; leave kube-system and kube-node-lease out by `namespaceSelector`, or set `failurePolicy: Ignore`";
    vec![look.told(check, level, &cause, mend)]
}

/// Whether it is asked about what nodes and kube-system need.
fn blocks(hook: &Hook<'_>) -> bool {
    let leaves_out = hook.namespaces.is_some_and(leaves_out);
    hook.rules.iter().any(|rule| {
        let mut groups = rule.api_groups.iter().flatten();
        let is_group = groups.any(|group| GROUPS.contains(&group.as_str()));
        let has = |wanted: &str| {
            let mut all = rule.resources.iter().flatten();
            all.any(|resource| resource == wanted)
        };
        // Nodes have no namespace that could be left out.
        let is_of_all = rule.scope.as_deref() != Some("Namespaced");
        let is_asked_of_nodes = has("nodes") || (has("*") && is_of_all);
        let is_asked_of_pods = has("*") || has("pods") || has("leases");
        is_group && (is_asked_of_nodes || (is_asked_of_pods && !leaves_out))
    })
}

/// Whether a selector leaves kube-system out. One by other labels does: those of kube-system are Kubernetes' own.
fn leaves_out(selector: &LabelSelector) -> bool {
    let mut all = selector.match_expressions.iter().flatten();
    let by_name = all.any(|one| {
        let mut values = one.values.iter().flatten();
        let has = values.any(|value| value == "kube-system");
        one.key == NAMESPACE
            && match one.operator.as_str() {
                "NotIn" => has,
                "In" => !has,
                _ => false,
            }
    });
    by_name || selector.match_labels.iter().flatten().next().is_some()
}
