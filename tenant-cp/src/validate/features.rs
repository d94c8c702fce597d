//! Validation of feature gates and API versions: what a program would not start with, and what the platform
//! lets users switch.
//!
//! Invariant: a name that is let through is one of [`flags::features`](crate::flags::features), so no text of
//! a user's is in a flag.

use std::collections::BTreeMap;

use api::{Reason, TenantCluster};

use crate::flags::features::{API_VERSIONS, FEATURE_GATES, Switch, find};
use crate::problem::Problem;
use crate::settings::Settings;
use crate::settings::policy::ApiServerPolicy;
use crate::validate::component;
use crate::validate::refusal::not_allowed;
use crate::version;

/// One of the two fields.
struct Field {
    name: &'static str,
    /// The flag that it becomes.
    flag: &'static str,
    what: &'static str,
    list: &'static [Switch],
    unknown: Reason,
    refused: Reason,
}

impl Field {
    fn unknown(&self, path: String, name: &str) -> Problem {
        Problem::new(
            path,
            self.unknown,
            format!(
                "\"{name}\" is not one of the {} that can be set: remove it (docs/flags.md lists those \
                 that can)",
                self.what
            ),
        )
    }
}

const GATES: Field = Field {
    name: "featureGates",
    flag: "feature-gates",
    what: "feature gates",
    list: FEATURE_GATES,
    unknown: Reason::FeatureGateUnknown,
    refused: Reason::FeatureGateNotAllowed,
};

const APIS: Field = Field {
    name: "runtimeConfig",
    flag: "runtime-config",
    what: "API versions",
    list: API_VERSIONS,
    unknown: Reason::RuntimeConfigUnknown,
    refused: Reason::RuntimeConfigNotAllowed,
};

fn fields(tc: &TenantCluster) -> [(Field, &BTreeMap<String, bool>); 2] {
    let control_plane = &tc.spec.control_plane;
    [
        (GATES, &control_plane.feature_gates),
        (APIS, &control_plane.runtime_config),
    ]
}

/// The field that stands for a flag, where there is one.
pub(super) fn field_of(flag: &str) -> Option<&'static str> {
    let mut fields = [GATES, APIS].into_iter();
    fields
        .find(|field| field.flag == flag)
        .map(|field| field.name)
}

pub(super) fn check(tc: &TenantCluster, problems: &mut Vec<Problem>) {
    let Ok(version) = version::parse(&tc.spec.version) else {
        return;
    };
    for (field, asked) in fields(tc) {
        let path = |name: &str| format!("spec.controlPlane.{}[{name}]", field.name);
        for (name, on) in asked {
            let escaped = name.escape_default().to_string();
            let Some(switch) = find(field.list, name) else {
                problems.push(field.unknown(path(&escaped), &escaped));
                continue;
            };
            let needed = switch.needs.filter(|needed| {
                let is_on = asked.get(*needed) == Some(&true);
                *on && !is_on
            });
            if !switch.is_in(version.minor) {
                problems.push(Problem::new(
                    path(name),
                    field.unknown,
                    format!(
                        "{name} can be set {}, and not in 1.{}: remove it",
                        minors(switch),
                        version.minor
                    ),
                ));
            } else if let Some(needed) = needed {
                let message =
                    format!("{name} does not work without {needed}: set that to true, too");
                problems.push(Problem::new(
                    path(name),
                    Reason::FeatureGateMissing,
                    message,
                ));
            }
        }
        if !asked.is_empty() {
            twice(tc, &field, problems);
        }
    }
}

/// The same said as a flag, which may be there from a time when flags were not looked at.
fn twice(tc: &TenantCluster, field: &Field, problems: &mut Vec<Problem>) {
    for (component, _, settings) in component::programs(&tc.spec.control_plane) {
        if settings.extra_args.contains_key(field.flag) {
            problems.push(Problem::new(
                format!("spec.controlPlane.{component}.extraArgs[{}]", field.flag),
                Reason::FlagManaged,
                format!(
                    "--{} is said by spec.controlPlane.{} already: remove it here",
                    field.flag, field.name
                ),
            ));
        }
    }
}

/// In which minors it can be set. Example: `in Kubernetes 1.34 to 1.35`.
pub(crate) fn minors(switch: &Switch) -> String {
    match switch.since == switch.until {
        true => format!("in Kubernetes 1.{}", switch.since),
        false => format!("in Kubernetes 1.{} to 1.{}", switch.since, switch.until),
    }
}

/// What the platform does not let users switch. Names that nobody can switch are said by [`check`].
pub(super) fn check_policy(
    tc: &TenantCluster,
    policy: &ApiServerPolicy,
    problems: &mut Vec<Problem>,
) {
    for ((field, asked), allowed) in fields(tc).into_iter().zip(allowed(policy)) {
        let refused = asked
            .keys()
            .filter(|name| find(field.list, name).is_some() && !allowed.contains(name));
        problems.extend(refused.map(|name| {
            Problem::new(
                format!("spec.controlPlane.{}[{name}]", field.name),
                field.refused,
                not_allowed(name, allowed, &format!("apiServer.{}", field.name)),
            )
        }));
    }
}

fn allowed(policy: &ApiServerPolicy) -> [&Vec<String>; 2] {
    [&policy.feature_gates, &policy.runtime_config]
}

/// What is wrong with the platform's lists: a name that nobody could switch helps nobody.
pub(super) fn check_settings(settings: &Settings, problems: &mut Vec<Problem>) {
    for (field, allowed) in [GATES, APIS].iter().zip(allowed(&settings.api_server)) {
        let unknown = allowed
            .iter()
            .filter(|name| find(field.list, name).is_none());
        let path = format!("apiServer.{}", field.name);
        problems.extend(unknown.map(|name| field.unknown(path.clone(), name)));
    }
}
