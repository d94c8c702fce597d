//! The management cluster: its API, the kinds, the operator, the webhook, policies, backup targets, quotas.
//!
//! Invariant: only what was read is judged; a fact that lacks is told as not known by the check that needs it.

use jiff::SignedDuration;
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kit_objects::known::Known;
use kube::ResourceExt as _;

use super::conditions::{self, About, GRACE};
use super::pods;
use crate::check::Check;
use crate::facts::{ApiAnswer, Facts, NOT_READ};
use crate::finding::{Finding, Level, Scope, Subject};
use crate::text;

/// Certificates look expired, or not valid yet, from so much on.
const SKEW: SignedDuration = SignedDuration::from_secs(30);
/// The oldest minor of the management cluster.
const OLDEST_MINOR: u32 = 30;
/// Kinds without which nothing works, as their definitions are called.
const DEFINITIONS: [&str; 12] = [
    "tenantclusters.covey.dev",
    "nodepools.covey.dev",
    "machines.covey.dev",
    "hosts.covey.dev",
    "tenantquotas.covey.dev",
    "machineaddresses.covey.dev",
    "backuptargets.covey.dev",
    "snapshots.covey.dev",
    "restores.covey.dev",
    "providerconfigs.covey.dev",
    "fleetpolicies.covey.dev",
    "accessgrants.covey.dev",
];
/// How the binding of each of the chart's policies begins.
const POLICIES: &str = "covey-";

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let mut found = api(facts);
    found.extend(definitions(facts));
    found.extend(operator(facts));
    found.extend(leads(facts));
    found.extend(webhook(facts));
    found.extend(policies(facts));
    let (quotas, targets) = (&facts.management.quotas, &facts.management.backup_targets);
    for quota in quotas.as_ref().there().into_iter().flatten() {
        let told = quota
            .status
            .as_ref()
            .map(|status| status.conditions.as_slice());
        found.extend(of_object(facts, "TenantQuota", &quota.name_any(), told));
    }
    for target in targets.as_ref().there().into_iter().flatten() {
        let told = target
            .status
            .as_ref()
            .map(|status| status.conditions.as_slice());
        found.extend(of_object(facts, "BackupTarget", &target.name_any(), told));
    }
    found
}

/// What an object without a namespace says of itself. It explains nothing of a tenant cluster.
fn of_object(
    facts: &Facts,
    kind: &str,
    name: &str,
    conditions: Option<&[Condition]>,
) -> Vec<Finding> {
    let subject = Subject::new(kind, "", name);
    let scope = Scope {
        cluster: Some((String::new(), name.to_owned())),
        pool: None,
    };
    let about = About {
        subject: &subject,
        scope: &scope,
        now: facts.now,
        grace: GRACE,
    };
    conditions::check(conditions.unwrap_or_default(), &about)
}

fn api(facts: &Facts) -> Vec<Finding> {
    let mut found = Vec::new();
    let here = Subject::management;
    match &facts.management.api {
        ApiAnswer::NotAsked => {}
        ApiAnswer::Failed { what, mend } => {
            found.push(Finding::new(
                Check::ManagementReach,
                Level::Error,
                here(),
                what,
                mend,
            ));
        }
        ApiAnswer::Version(version) => {
            let minor = minor(version);
            if minor.is_some_and(|minor| minor < OLDEST_MINOR) {
                let cause = format!(
                    "the management cluster runs Kubernetes {version}; Covey needs 1.{OLDEST_MINOR} or newer"
                );
                let mend = "upgrade the management cluster, or use another one with `--context`";
                found.push(Finding::new(
                    Check::ManagementVersion,
                    Level::Error,
                    here(),
                    &cause,
                    mend,
                ));
            }
        }
    }
    if let Known::Known(ahead) = facts.management.clock_ahead
        && ahead.abs() > SKEW
    {
        let side = if ahead.is_negative() {
            "ahead of"
        } else {
            "behind"
        };
        let cause = format!(
            "the clock here is {} s {side} the management cluster's, so certificates may look expired",
            ahead.abs().as_secs()
        );
        let mend = "set the clock, for example by `timedatectl set-ntp true`";
        found.push(Finding::new(
            Check::Clock,
            Level::Warning,
            here(),
            &cause,
            mend,
        ));
    }
    if !facts.not_allowed.is_empty() {
        let what = text::names(facts.not_allowed.iter().map(String::as_str), 5);
        let finding = Finding::new(
            Check::Rights,
            Level::Skipped,
            here(),
            &format!("not allowed to {what}; checks that need it are skipped"),
            "ask for the rights to read it: `kubectl auth can-i --list` says what you have",
        );
        found.push(finding);
    }
    found
}

/// 35 of `v1.35.4+k3s1`.
fn minor(version: &str) -> Option<u32> {
    let minor = version.split('.').nth(1)?;
    minor
        .trim_end_matches(|c: char| !c.is_ascii_digit())
        .parse()
        .ok()
}

fn definitions(facts: &Facts) -> Vec<Finding> {
    let served = match &facts.management.definitions {
        Known::Known(served) => served,
        Known::Absent => return Vec::new(),
        Known::Unknown { why } => {
            let here = Subject::management();
            return unknown(Check::Definitions, here, "which kinds are there", why);
        }
    };
    let missing = DEFINITIONS
        .iter()
        .filter(|name| !served.iter().any(|s| s == *name));
    let missing: Vec<_> = missing.copied().collect();
    if missing.is_empty() {
        return Vec::new();
    }
    let all = missing.len() == DEFINITIONS.len();
    let cause = match all {
        true => "this cluster has no kinds of covey.dev: Covey is not installed here".to_owned(),
        false => format!(
            "the definitions {} are missing or not served",
            missing.join(", ")
        ),
    };
    let mend = "install them with the chart, `helm upgrade --install covey deploy/charts/covey --namespace covey-system`, or use another `--context`";
    of_the_cluster(Check::Definitions, Level::Error, &cause, mend)
}

/// What is said of the management cluster as a whole.
fn of_the_cluster(check: Check, level: Level, cause: &str, mend: &str) -> Vec<Finding> {
    let here = Subject::management();
    vec![Finding::new(check, level, here, cause, mend)]
}

/// The fact that a check needs is not known. What nobody asked for is not worth a word.
pub(super) fn unknown(check: Check, subject: Subject, what: &str, why: &str) -> Vec<Finding> {
    if why == NOT_READ {
        return Vec::new();
    }
    vec![Finding::unknown(check, subject, what, why)]
}

fn operator(facts: &Facts) -> Vec<Finding> {
    let subject = |deployment: &Deployment| {
        let namespace = deployment.namespace().unwrap_or_default();
        Subject::new("Deployment", &namespace, &deployment.name_any())
    };
    let deployment = match &facts.management.operator {
        Known::Known(deployment) => deployment,
        Known::Absent => {
            let cause = "there is no Deployment covey-operator where the operator was looked for";
            let mend = "install Covey, or name its namespace with `--operator-namespace`";
            return of_the_cluster(Check::OperatorPods, Level::Error, cause, mend);
        }
        Known::Unknown { why } => {
            return unknown(
                Check::OperatorPods,
                Subject::management(),
                "the operator's Deployment",
                why,
            );
        }
    };
    let wanted = deployment
        .spec
        .as_ref()
        .and_then(|spec| spec.replicas)
        .unwrap_or(1);
    let status = deployment.status.as_ref();
    let ready = status
        .and_then(|status| status.available_replicas)
        .unwrap_or(0);
    if wanted > 0 && ready >= wanted {
        return Vec::new();
    }
    let (name, namespace) = (
        deployment.name_any(),
        deployment.namespace().unwrap_or_default(),
    );
    let mut found = Vec::new();
    if wanted == 0 {
        let cause = "the operator is scaled to 0: nothing is reconciled";
        let mend = format!("`kubectl -n {namespace} scale deployment {name} --replicas 2`");
        found.push(Finding::new(
            Check::OperatorPods,
            Level::Error,
            subject(deployment),
            cause,
            &mend,
        ));
        return found;
    }
    let pods = facts.management.operator_pods.as_ref().there();
    let troubles = pods.into_iter().flatten().filter_map(pods::trouble);
    let level = if ready > 0 {
        Level::Warning
    } else {
        Level::Error
    };
    for trouble in troubles {
        let mend = match trouble.is_image {
            true => "correct `image.repository` and `image.tag` of the chart".to_owned(),
            false if trouble.is_memory => "raise `resources` of the chart".to_owned(),
            false => format!("`kubectl -n {namespace} describe pod {}`", trouble.pod),
        };
        found.push(Finding::new(
            Check::OperatorPods,
            level,
            subject(deployment),
            &trouble.what,
            &mend,
        ));
    }
    let cause = format!("{ready} of {wanted} pods of the operator are ready");
    let mend = format!("`kubectl -n {namespace} describe deployment {name}` says what lacks");
    found.push(Finding::new(
        Check::OperatorPods,
        level,
        subject(deployment),
        &cause,
        &mend,
    ));
    found
}

fn leads(facts: &Facts) -> Vec<Finding> {
    let lease = match &facts.management.lease {
        Known::Known(lease) => lease,
        // It is made by who leads first.
        Known::Absent => {
            let cause =
                "no replica of the operator has ever led here: there is no Lease covey-operator";
            let mend = "read the operator's log, `kubectl -n covey-system logs deployment/covey-operator`, or name its namespace with `--operator-namespace`";
            return of_the_cluster(Check::OperatorLeads, Level::Error, cause, mend);
        }
        Known::Unknown { why } => {
            return unknown(
                Check::OperatorLeads,
                Subject::management(),
                "the operator's Lease",
                why,
            );
        }
    };
    let (name, namespace) = (lease.name_any(), lease.namespace().unwrap_or_default());
    let spec = lease.spec.clone().unwrap_or_default();
    let renewed = spec.renew_time.map(|time| time.0);
    let duration = SignedDuration::from_secs(i64::from(spec.lease_duration_seconds.unwrap_or(15)));
    let held = spec
        .holder_identity
        .is_some_and(|holder| !holder.is_empty());
    let allowed = duration.saturating_add(SKEW);
    let is_fresh = renewed.is_some_and(|at| facts.now.duration_since(at) <= allowed);
    if held && is_fresh {
        return Vec::new();
    }
    let cause = match renewed {
        Some(at) => format!("nobody leads: the Lease was renewed last at {at}"),
        None => "nobody leads: the Lease has no holder".to_owned(),
    };
    let mend =
        format!("read the operator's log: `kubectl -n {namespace} logs deployment/covey-operator`");
    let mut finding = Finding::new(
        Check::OperatorLeads,
        Level::Error,
        Subject::new("Lease", &namespace, &name),
        &cause,
        &mend,
    );
    finding.since = renewed;
    vec![finding]
}

fn webhook(facts: &Facts) -> Vec<Finding> {
    let subject = Subject::new("ValidatingWebhookConfiguration", "", "covey");
    match &facts.management.webhook {
        Known::Known(webhook) => {
            let all = webhook.webhooks.iter().flatten();
            let without = |bundle: Option<&[u8]>| bundle.is_none_or(<[u8]>::is_empty);
            let mut bundles =
                all.map(|one| one.client_config.ca_bundle.as_ref().map(|b| b.0.as_slice()));
            if !bundles.any(without) {
                return Vec::new();
            }
            let cause = "the webhook has no caBundle, so the API server does not believe it";
            let mend = "the operator that leads writes it; `kubectl -n covey-system logs deployment/covey-operator` says what keeps it";
            vec![Finding::new(
                Check::Webhook,
                Level::Error,
                subject,
                cause,
                mend,
            )]
        }
        Known::Absent => {
            let cause = "there is no webhook covey: mistakes are found after they were let in";
            let mend = "install it with the chart: `webhook.enabled`";
            vec![Finding::new(
                Check::Webhook,
                Level::Warning,
                subject,
                cause,
                mend,
            )]
        }
        Known::Unknown { why } => {
            unknown(Check::Webhook, subject, "the webhook's configuration", why)
        }
    }
}

fn policies(facts: &Facts) -> Vec<Finding> {
    let bindings = match &facts.management.policy_bindings {
        Known::Known(bindings) => bindings,
        Known::Absent => return Vec::new(),
        Known::Unknown { why } => {
            return unknown(
                Check::Policies,
                Subject::management(),
                "which admission policies are bound",
                why,
            );
        }
    };
    let ours: Vec<_> = bindings
        .iter()
        .filter(|b| b.name_any().starts_with(POLICIES))
        .collect();
    if ours.is_empty() {
        let cause =
            "no admission policy of Covey is bound: what keeps the operator and tenants in is off";
        let mend = "set `admissionPolicies.enabled` of the chart to true";
        return of_the_cluster(Check::Policies, Level::Warning, cause, mend);
    }
    let denies = |binding: &ValidatingAdmissionPolicyBinding| {
        let actions = binding
            .spec
            .as_ref()
            .and_then(|spec| spec.validation_actions.as_ref());
        actions.is_some_and(|actions| actions.iter().any(|action| action == "Deny"))
    };
    let soft = ours.into_iter().filter(|binding| !denies(binding));
    let soft = soft.map(|binding| {
        let name = binding.name_any();
        let subject = Subject::new("ValidatingAdmissionPolicyBinding", "", &name);
        let mend = format!("put Deny into `spec.validationActions` of {name}, as the chart has it");
        let cause = "the policy denies nothing: its binding has no action Deny";
        Finding::new(Check::Policies, Level::Warning, subject, cause, &mend)
    });
    soft.collect()
}
