//! What the status of a ProviderConfig says, and when it is looked at again. No I/O, no clock, no chance.
//!
//! Invariant: the account is recorded once and never taken off; what nobody knows does not change what was said of leaks;
//! the words of one failure stay, whatever the cloud adds to them each time.

use std::time::Duration;

use api::provider_config::Gap;
use api::{
    ConditionStatus, ConditionType, ProviderConfig, ProviderConfigStatus, Reason, names,
    remove_condition, set_condition,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use providers::{Checked, Error, FaultKind, Refused};

use super::gaps::{self, Kept};
use super::keeping::plan::InUse;
use crate::cloud_limits::plan::Budget;
use crate::clouds::Swept;

/// How soon one that is Ready is looked at again: what ends meanwhile Machines tell, what leaks costs until then.
const READY: Duration = Duration::from_mins(10);
/// How soon one that a person has to mend is: a change of its Secret or its spec wakes it before.
const REFUSED: Duration = Duration::from_mins(5);
/// How soon one is that goes, and that Machines hold: the last of them wakes it before.
pub const GOING: Duration = Duration::from_mins(5);
/// How soon one of which nobody knows is.
const UNKNOWN: Duration = Duration::from_secs(30);

/// What was seen.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// What the cloud said.
    pub checked: &'a Result<Checked, Error>,
    /// What nobody has any more; none where nobody looked, or it is not known.
    pub swept: Option<&'a Swept>,
    /// Of which times it is not known what was made in them ([`gaps::known`]).
    pub gaps: &'a [Gap],
    /// Who needs it.
    pub in_use: &'a InUse,
    /// What is said of its limits; none where it has none.
    pub budget: Option<&'a Budget>,
}

/// What is to be done.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The status.
    pub status: ProviderConfigStatus,
    /// What is told in an Event, once.
    pub event: Option<(Reason, String)>,
    /// When to look again.
    pub again: Duration,
}

/// Whether what nobody has any more may be looked for: whose the project is was recorded, and it is that one.
#[must_use]
pub fn may_sweep(config: &ProviderConfig, checked: &Checked) -> bool {
    let recorded = config.status.as_ref().and_then(|s| s.account.as_ref());
    recorded.is_some() && recorded == checked.account.as_ref()
}

/// The status that follows, and the next look.
#[must_use]
pub fn plan(config: &ProviderConfig, observed: &Observed<'_>, now: Timestamp) -> Plan {
    let mut status = config.status.clone().unwrap_or_default();
    let generation = config.metadata.generation;
    let had_account = status.account.is_some();
    if let Ok(Checked {
        account: Some(account),
    }) = observed.checked
    {
        status.account.get_or_insert_with(|| account.clone());
    }
    let is_new = !had_account && status.account.is_some();
    let kept = gaps::kept(config, observed.gaps, observed.swept, is_new, now);
    let Kept {
        gaps,
        accounted_until,
    } = kept;
    status.gaps.clone_from(&gaps);
    status.accounted_until = accounted_until;
    let (value, reason, message, again) = ready(observed.checked);
    let mut event = None;
    let before = status.conditions.iter().find(|c| {
        c.type_ == ConditionType::Ready.as_str() && c.status == value.as_str() && c.reason == reason
    });
    let message = match before {
        // Only what somebody has to change is worth a write for its words alone.
        Some(before) if value == ConditionStatus::Unknown => before.message.clone(),
        None if value == ConditionStatus::False => {
            event = Some((reason, message.clone()));
            message
        }
        _ => message,
    };
    status.observed_generation = generation;
    if observed.budget.is_none() {
        remove_condition(&mut status.conditions, ConditionType::Budget);
    }
    let mut set = |type_, value: ConditionStatus, reason: Reason, message: &str| {
        let list = &mut status.conditions;
        set_condition(list, type_, value, reason, message, generation, Time(now));
    };
    set(ConditionType::Ready, value, reason, &message);
    let InUse {
        value,
        reason,
        message,
    } = observed.in_use;
    set(ConditionType::InUse, *value, *reason, message);
    if let Some(budget) = observed.budget {
        let Budget {
            value,
            reason,
            message,
        } = budget;
        set(ConditionType::Budget, *value, *reason, message);
    }
    if let Some(swept) = observed.swept {
        let (value, reason, message) = leaks(config, swept, &gaps);
        set(ConditionType::Leaks, value, reason, &message);
    }
    Plan {
        status,
        event,
        again,
    }
}

/// The status of one that is being deleted: what was said of the cloud stays as it was.
#[must_use]
pub fn going(config: &ProviderConfig, in_use: &InUse, now: Timestamp) -> ProviderConfigStatus {
    let mut status = config.status.clone().unwrap_or_default();
    let generation = config.metadata.generation;
    status.observed_generation = generation;
    let InUse {
        value,
        reason,
        message,
    } = in_use;
    let list = &mut status.conditions;
    let (type_, now) = (ConditionType::InUse, Time(now));
    set_condition(list, type_, *value, *reason, message, generation, now);
    status
}

fn ready(checked: &Result<Checked, Error>) -> (ConditionStatus, Reason, String, Duration) {
    let error = match checked {
        Ok(_) => {
            return (
                ConditionStatus::True,
                Reason::ProviderChecked,
                String::new(),
                READY,
            );
        }
        Err(error) => error,
    };
    let message = match error {
        // What the cloud calls the request differs each time.
        Error::Refused(refused) => Refused {
            request: None,
            ..(**refused).clone()
        }
        .to_string(),
        error => kit_client::errors::chain(error),
    };
    match error.fault() {
        FaultKind::Throttled { .. }
        | FaultKind::Unavailable
        | FaultKind::NotFound
        | FaultKind::Conflict => (ConditionStatus::Unknown, error.reason(), message, UNKNOWN),
        FaultKind::Auth
        | FaultKind::Taken
        | FaultKind::Gone
        | FaultKind::Terminal
        | FaultKind::Capacity { .. }
        | FaultKind::Quota { .. } => (ConditionStatus::False, error.reason(), message, REFUSED),
    }
}

fn leaks(
    config: &ProviderConfig,
    swept: &Swept,
    gaps: &[Gap],
) -> (ConditionStatus, Reason, String) {
    if swept.count == 0 {
        let (value, reason) = (ConditionStatus::False, Reason::NothingLeaked);
        return (value, reason, String::new());
    }
    let named = swept.named.join(", ");
    let more = match swept.count.saturating_sub(swept.named.len()) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    if !swept.held && swept.doubted == 0 {
        return (
            ConditionStatus::True,
            Reason::LeaksFound,
            format!("of Machines that are not there: {named}{more}"),
        );
    }
    let why = match swept.held {
        true => "so many that the Machines may be missing".to_owned(),
        false => format!(
            "{} of them of a time that the management cluster may not remember, because it was brought back to an older state",
            swept.doubted
        ),
    };
    let mend = gaps::awaited(gaps, swept).map(|gap| {
        format!(
            ". When none of that is somebody's node: kubectl annotate --overwrite -n {} providerconfig {} {}={}",
            config.namespace().unwrap_or_default(),
            config.name_any(),
            names::ANNOTATION_DELETE_UNKNOWN,
            gap.to.0,
        )
    });
    (
        ConditionStatus::True,
        Reason::LeaksHeld,
        format!(
            "{} things of Machines that are not there, {why}; they are not deleted: {named}{more}{}",
            swept.count,
            mend.unwrap_or_default()
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn now() -> Timestamp {
        "2026-11-21T12:00:00Z".parse().unwrap()
    }

    fn config(status: &Value) -> ProviderConfig {
        serde_json::from_value(json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "ProviderConfig",
            "metadata": { "name": "h", "namespace": "team-a", "generation": 2 },
            "spec": { "hetzner": { "tokenSecretName": "t", "location": "fsn1", "sshKeys": ["covey"] } },
            "status": status,
        }))
        .unwrap()
    }

    fn refused(kind: FaultKind, request: &str) -> Result<Checked, Error> {
        let refused = Refused {
            provider: "hetzner",
            verb: "read",
            object: "SSH key covey".to_owned(),
            kind,
            code: "unauthorized".to_owned(),
            message: "unable to authenticate".to_owned(),
            request: Some(request.to_owned()),
            mend: Some("put a new one into the Secret".to_owned()),
        };
        Err(refused.into())
    }

    fn of(account: &str) -> Result<Checked, Error> {
        Ok(Checked {
            account: Some(account.to_owned()),
        })
    }

    fn planned(config: &ProviderConfig, checked: &Result<Checked, Error>) -> Plan {
        let gaps = gaps::known(config, None);
        let observed = Observed {
            checked,
            swept: None,
            gaps: &gaps,
            in_use: &InUse::nobody(),
            budget: None,
        };
        plan(config, &observed, now())
    }

    fn said(status: &ProviderConfigStatus, type_: &str) -> (String, String, String) {
        let found = status.conditions.iter().find(|c| c.type_ == type_);
        let found = found.unwrap();
        (
            found.status.clone(),
            found.reason.clone(),
            found.message.clone(),
        )
    }

    #[test]
    fn account_is_recorded_once_and_what_was_said_is_not_written_again() {
        let first = planned(&config(&json!({})), &of("ssh-key-1"));
        assert_eq!(first.status.account.as_deref(), Some("ssh-key-1"));
        assert_eq!(said(&first.status, "Ready").0, "True");
        assert_eq!(first.status.observed_generation, Some(2));
        let seen = config(&json!(first.status));
        let again = planned(&seen, &of("ssh-key-1"));
        assert_eq!(again.status, first.status);
        // The client refuses another account; should it not, what was recorded stays.
        let other = planned(&seen, &of("ssh-key-2"));
        assert_eq!(other.status.account.as_deref(), Some("ssh-key-1"));
        assert!(!may_sweep(&seen, &of("ssh-key-2").unwrap()));
        assert!(may_sweep(&seen, &of("ssh-key-1").unwrap()));
        assert!(!may_sweep(&config(&json!({})), &of("ssh-key-1").unwrap()));
    }

    #[test]
    fn refusal_names_code_and_what_to_change_once_and_keeps_the_account() {
        let before = config(&json!({ "account": "ssh-key-1" }));
        let first = planned(&before, &refused(FaultKind::Auth, "r-1"));
        let (value, reason, message) = said(&first.status, "Ready");
        assert_eq!(
            (value.as_str(), reason.as_str()),
            ("False", "CredentialsRefused")
        );
        assert!(message.contains("unauthorized") && message.contains("put a new one"));
        assert!(!message.contains("r-1"), "{message}");
        assert_eq!(first.status.account.as_deref(), Some("ssh-key-1"));
        assert!(first.event.is_some());
        let again = planned(
            &config(&json!(first.status)),
            &refused(FaultKind::Auth, "r-2"),
        );
        assert_eq!(again.status, first.status);
        assert!(again.event.is_none(), "it was told");
    }

    #[test]
    fn nobody_knows_is_unknown_and_costs_no_write_for_other_words() {
        let first = planned(&config(&json!({})), &refused(FaultKind::Unavailable, "r"));
        assert_eq!(said(&first.status, "Ready").0, "Unknown");
        assert!(first.event.is_none());
        let mut other = refused(FaultKind::Unavailable, "r");
        if let Err(Error::Refused(refused)) = &mut other {
            refused.message = "no route".to_owned();
        }
        let again = planned(&config(&json!(first.status)), &other);
        assert_eq!(again.status, first.status);
    }

    #[test]
    fn deletion_says_who_holds_it_and_keeps_what_was_said_of_the_cloud() {
        let before = planned(&config(&json!({})), &of("ssh-key-1")).status;
        assert_eq!(said(&before, "InUse").1, "NeededByNobody");
        let in_use = InUse {
            value: ConditionStatus::True,
            reason: Reason::Deleting,
            message: "waits for a".to_owned(),
        };
        let status = going(&config(&json!(before)), &in_use, now());
        assert_eq!(said(&status, "InUse").2, "waits for a");
        assert_eq!(said(&status, "Ready"), said(&before, "Ready"));
        assert_eq!(status.account.as_deref(), Some("ssh-key-1"));
        let again = going(&config(&json!(status)), &in_use, now());
        assert_eq!(again, status, "nothing is written again");
    }

    #[test]
    fn budget_is_said_while_there_is_one() {
        let checked = of("ssh-key-1");
        let (in_use, budget) = (
            InUse::nobody(),
            Budget {
                value: ConditionStatus::False,
                reason: Reason::LimitReached,
                message: "there are 3".to_owned(),
            },
        );
        let observed = Observed {
            checked: &checked,
            swept: None,
            gaps: &[],
            in_use: &in_use,
            budget: Some(&budget),
        };
        let full = plan(&config(&json!({})), &observed, now()).status;
        assert_eq!(said(&full, "Budget").1, "LimitReached");
        assert_eq!(
            said(&full, "Ready").0,
            "True",
            "what is there is looked after"
        );
        let without = planned(&config(&json!(full)), &checked).status;
        assert!(without.conditions.iter().all(|c| c.type_ != "Budget"));
    }

    #[test]
    fn leaks_are_told_and_stay_said_while_nobody_knows() {
        let checked = of("ssh-key-1");
        let swept = Swept {
            count: 12,
            named: vec!["server a (1)".to_owned()],
            held: true,
            unconfirmed: vec![now()],
            ..Swept::default()
        };
        let observed = Observed {
            checked: &checked,
            swept: Some(&swept),
            gaps: &[],
            in_use: &InUse::nobody(),
            budget: None,
        };
        let held = plan(
            &config(&json!({ "account": "ssh-key-1" })),
            &observed,
            now(),
        );
        let (value, reason, message) = said(&held.status, "Leaks");
        assert_eq!((value.as_str(), reason.as_str()), ("True", "LeaksHeld"));
        assert!(message.contains("server a (1) and 11 more"), "{message}");
        assert!(
            message.ends_with(
                "kubectl annotate --overwrite -n team-a providerconfig h covey.dev/delete-unknown=2026-11-21T12:00:00Z"
            ),
            "{message}"
        );
        let stored = config(&json!(held.status));
        let unknown = Observed {
            swept: None,
            gaps: &held.status.gaps,
            ..observed
        };
        assert_eq!(plan(&stored, &unknown, now()).status, held.status);
    }

    #[test]
    fn what_may_be_somebodys_is_held_and_all_else_is_a_leak() {
        let (checked, in_use) = (of("ssh-key-1"), InUse::nobody());
        let gaps = [Gap {
            from: None,
            to: Time(now()),
        }];
        let stored = config(&json!({ "account": "ssh-key-1", "gaps": gaps }));
        let said_of = |doubted: usize| {
            let swept = Swept {
                count: 2,
                doubted,
                made: vec![now()],
                unconfirmed: vec![now()],
                ..Swept::default()
            };
            let observed = Observed {
                checked: &checked,
                swept: Some(&swept),
                gaps: &gaps,
                in_use: &in_use,
                budget: None,
            };
            let plan = plan(&stored, &observed, now());
            assert_eq!(plan.status.gaps, gaps);
            said(&plan.status, "Leaks").1
        };
        assert_eq!(said_of(1), "LeaksHeld");
        assert_eq!(said_of(0), "LeaksFound");
    }
}
