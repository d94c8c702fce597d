//! What is to be done about an AccessGrant, and what is said of it. No I/O, no clock, no chance.
//!
//! Laws: a certificate is signed only for a grant that has not ended, is bound inside and carries a finalizer, and never
//! lasts longer than the grant or the authority. A grant that is deleted loses its binding first, and waits for a tenant
//! cluster that does not answer until the certificate has ended: from then on nobody can show one that the binding would
//! mean. A status that was erased is computed again and makes nothing longer. What is not known takes nothing away.
//! Of a grant with a Secret no key is made while a good certificate stands there, whatever was forgotten; the one that
//! stands there is renewed as long as the grant is there and the platform knows its profile, whatever else is wrong with the
//! tenant cluster; and the Secret holds none from when its rights end.
//! A grant that asked for a token gets one, with the same rights, and its account goes before its binding; where the tenant
//! cluster does not answer the grant waits for the token's end, too.
//! Long because grants with and without a Secret are held to the same laws.

use api::access_grant::{LEAST_SECONDS, USER_PREFIX};
use api::condition::is_true;
use api::{
    AccessGrant, AccessGrantStatus, ConditionStatus, ConditionType, Reason, TenantCluster, names,
    set_condition,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kit::events::Notice;
use kit_objects::known::Known;
use kube::ResourceExt;
use pki::sealed::is_key;
use tenant_cp::settings::AccessSettings;

use super::observed::{Authority, Binding, Held, Inside, Kubeconfig, Observed};
use crate::access::{end, held_until, is_asleep};

/// How soon a tenant cluster is asked again that did not answer.
const LATER: SignedDuration = SignedDuration::from_secs(15);
/// How soon one with a Secret is looked at again that nothing is wrong with: what somebody did to its Secret, and another
/// address of the tenant cluster, is noticed by it.
const LOOK: SignedDuration = SignedDuration::from_mins(10);
/// How long a grant that has ended can still be read.
const SHOWN: SignedDuration = SignedDuration::from_hours(1);

/// One step.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Action {
    /// Holds the grant until its rights are gone.
    AddFinalizer,
    /// Binds the grant's group to this ClusterRole, inside the tenant cluster.
    Bind {
        /// The role.
        role: String,
    },
    /// Takes the binding of this UID away.
    Unbind {
        /// As it was seen.
        uid: String,
    },
    /// Makes the grant's ServiceAccount and a token of it, sealed for whoever asked; what comes of it is put into the plan's
    /// status.
    IssueToken {
        /// How long it lasts.
        seconds: i64,
    },
    /// Deletes the grant's ServiceAccount, with which its tokens end. It may be gone already.
    DropAccount,
    /// Signs the request; what comes of it is put into the plan's status.
    Sign {
        /// When the certificate ends.
        until: Timestamp,
    },
    /// Makes a key, signs a certificate for it, and writes both to the Secret; the certificate is put into the plan's status.
    IssueSecret {
        /// When the certificate ends.
        until: Timestamp,
    },
    /// Writes the kubeconfig anew with the key and certificate that it has.
    CorrectSecret,
    /// Takes the kubeconfig out of the Secret.
    EmptySecret,
    /// Lets the grant go.
    RemoveFinalizer,
    /// Deletes the grant, which has ended long enough ago.
    DeleteSelf,
}

/// What is to be done, in this order, and then the status is written where it is another one.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The steps.
    pub actions: Vec<Action>,
    /// The status as it should be; without the certificate where that is to be signed.
    pub status: AccessGrantStatus,
    /// When to look again, unless something happens.
    pub again: Option<SignedDuration>,
    /// What people are told once it is done.
    pub notice: Option<Notice>,
}

/// Whether it has to be known what is inside the tenant cluster.
#[must_use]
pub fn needs_inside(grant: &AccessGrant, now: Timestamp) -> bool {
    has_finalizer(grant) || (!is_going(grant) && now < end(grant))
}

/// Whether a grant is in force: others are counted by it.
#[must_use]
pub fn is_in_force(grant: &AccessGrant, now: Timestamp) -> bool {
    let status = grant.status.as_ref();
    let has_certificate = status.is_some_and(|status| status.certificate.is_some());
    has_certificate && !is_going(grant) && now < end(grant)
}

/// Decides.
#[must_use]
pub fn plan(
    grant: &AccessGrant,
    observed: &Observed,
    settings: &AccessSettings,
    now: Timestamp,
) -> Plan {
    let mut status = grant.status.clone().unwrap_or_default();
    status.observed_generation = grant.metadata.generation;
    let most_seconds = settings.most_seconds;
    let draft = Draft {
        grant,
        status,
        now,
        most_seconds,
    };
    if is_going(grant) {
        return draft.leaving(observed);
    }
    if now >= end(grant) {
        return draft.ended(observed);
    }
    let cluster = match cluster_of(&draft.status, observed) {
        Ok(cluster) => cluster,
        Err(message) => {
            return draft.refused(observed, Reason::GrantWithoutCluster, &message);
        }
    };
    match role(grant, settings) {
        Err((reason, message)) => draft.refused(observed, reason, &message),
        Ok(role) => match refusal(grant, observed, settings) {
            Some((reason, message)) => draft.refused(observed, reason, &message),
            None => draft.granted(observed, cluster, role),
        },
    }
}

fn is_going(grant: &AccessGrant) -> bool {
    grant.metadata.deletion_timestamp.is_some()
}

fn has_secret(grant: &AccessGrant) -> bool {
    grant.spec.secret_name.is_some()
}

fn has_token(grant: &AccessGrant) -> bool {
    grant.spec.token_key.is_some()
}

fn has_finalizer(grant: &AccessGrant) -> bool {
    let mut finalizers = grant.finalizers().iter();
    finalizers.any(|finalizer| finalizer == names::FINALIZER_ACCESS_GRANT)
}

/// The tenant cluster that the grant is for; or why there is none.
fn cluster_of<'a>(
    status: &AccessGrantStatus,
    observed: &'a Observed,
) -> Result<&'a TenantCluster, String> {
    let Some(cluster) = observed.cluster.as_ref().there() else {
        return Err("there is no such TenantCluster in this namespace".to_owned());
    };
    let known = status.cluster_uid.as_ref();
    if known.is_some() && known != cluster.metadata.uid.as_ref() {
        return Err(
            "the TenantCluster was deleted and made anew since: this grant is of the one before"
                .to_owned(),
        );
    }
    Ok(cluster)
}

/// The ClusterRole that is granted.
fn role<'a>(
    grant: &AccessGrant,
    settings: &'a AccessSettings,
) -> Result<&'a str, (Reason, String)> {
    if !settings.enabled {
        let message = "the platform lets nobody in by AccessGrants (config.access.enabled, and the chart's admission policies)";
        return Err((Reason::GrantsOff, message.to_owned()));
    }
    settings.role(&grant.spec.profile).ok_or_else(|| {
        let known: Vec<_> = settings.names().collect();
        let message = format!(
            "there is no profile {}: name one of {}",
            grant.spec.profile,
            known.join(", ")
        );
        (Reason::GrantProfileUnknown, message)
    })
}

/// What speaks against it.
fn refusal(
    grant: &AccessGrant,
    observed: &Observed,
    settings: &AccessSettings,
) -> Option<(Reason, String)> {
    match &observed.secret {
        Held::Foreign(message) => Some((Reason::GrantSecretTaken, message.clone())),
        _ => first_refusal(grant, observed, settings),
    }
}

/// What speaks against the first certificate of a grant; once it has one, a ceiling that is lowered takes nothing away.
fn first_refusal(
    grant: &AccessGrant,
    observed: &Observed,
    settings: &AccessSettings,
) -> Option<(Reason, String)> {
    let status = grant.status.as_ref();
    if status.is_some_and(|status| status.certificate.is_some())
        || matches!(observed.secret, Held::Own(Some(_)))
    {
        return None;
    }
    let (asked, most) = (grant.spec.ttl_seconds, settings.most_seconds);
    if asked > most {
        let message = format!("it asks for {asked} seconds, and here it is {most} at most");
        return Some((Reason::GrantTooLong, message));
    }
    let request = grant.spec.request.as_deref();
    let weak = match request.and_then(|request| pki::request::read(request.as_bytes())) {
        // The key is made here.
        _ if has_secret(grant) => None,
        None => Some("it is no PKCS #10 request in PEM that is signed with its own key".to_owned()),
        Some(read) => read
            .weak_key
            .map(|key| format!("it has {key}: make an EC P-256 key")),
    };
    let odd = grant.spec.token_key.as_deref().filter(|key| !is_key(key));
    let odd = odd.map(|_| "`tokenKey` is no X25519 key in base64".to_owned());
    if let Some(message) = weak.or(odd) {
        return Some((Reason::GrantRequestUnusable, message));
    }
    let (others, most) = (observed.others, settings.most_grants);
    (others >= most).then(|| {
        let message =
            format!("{others} grants of this tenant cluster are in force, and {most} may be");
        (Reason::GrantsTooMany, message)
    })
}

/// A plan that is being made.
struct Draft<'a> {
    grant: &'a AccessGrant,
    status: AccessGrantStatus,
    now: Timestamp,
    most_seconds: u32,
}

impl Draft<'_> {
    fn ready(&mut self, value: ConditionStatus, reason: Reason, message: &str) {
        let (list, now) = (&mut self.status.conditions, Time(self.now));
        let generation = self.grant.metadata.generation;
        set_condition(
            list,
            ConditionType::Ready,
            value,
            reason,
            message,
            generation,
            now,
        );
    }

    /// How long until then, at most as long as is waited for a tenant cluster that is worth asking again.
    fn until(&self, then: Timestamp, inside: &Inside) -> Option<SignedDuration> {
        let left = then
            .duration_since(self.now)
            .max(SignedDuration::from_secs(1));
        let left = match has_secret(self.grant) {
            true => left.min(LOOK),
            false => left,
        };
        Some(match inside {
            Inside::Unknown { soon: true } => left.min(LATER),
            _ => left,
        })
    }

    fn with(self, actions: Vec<Action>, again: Option<SignedDuration>) -> Plan {
        Plan {
            actions,
            status: self.status,
            again,
            notice: None,
        }
    }

    /// What takes the rights away, as far as that is possible now.
    fn take_away(&self, observed: &Observed) -> Vec<Action> {
        if !has_finalizer(self.grant) {
            return Vec::new();
        }
        let mut actions = Vec::new();
        let is_answered = match &observed.inside {
            Inside::Answers(binding) => {
                if has_token(self.grant) {
                    actions.push(Action::DropAccount);
                }
                actions.extend(binding.as_ref().map(|binding| Action::Unbind {
                    uid: binding.uid.clone(),
                }));
                true
            }
            Inside::Unknown { .. } => false,
        };
        if matches!(observed.secret, Held::Own(Some(_))) {
            // It can be read for longer than the rights last.
            actions.push(Action::EmptySecret);
        }
        if is_answered {
            actions.push(Action::RemoveFinalizer);
        }
        actions
    }

    /// Whether rights are left that these actions do not take away.
    fn is_held(&self, actions: &[Action]) -> bool {
        has_finalizer(self.grant) && !actions.contains(&Action::RemoveFinalizer)
    }

    fn leaving(mut self, observed: &Observed) -> Plan {
        if !has_finalizer(self.grant) {
            return self.with(Vec::new(), None);
        }
        let (end, held) = (end(self.grant), held_until(self.grant));
        let mut actions = self.take_away(observed);
        let is_gone = match cluster_of(&self.status, observed) {
            Ok(cluster) => cluster.metadata.deletion_timestamp.is_some(),
            // Not where it could not be looked for.
            Err(_) => !matches!(observed.cluster, Known::Unknown { .. }),
        };
        if self.is_held(&actions) && (is_gone || self.now >= held) {
            actions.push(Action::RemoveFinalizer);
        }
        if self.is_held(&actions) {
            let what = match has_token(self.grant) {
                true => "certificate and its token",
                false => "certificate",
            };
            let message = format!(
                "its rights inside the tenant cluster end once that answers, and its {what} at {held} in any case"
            );
            self.ready(ConditionStatus::False, Reason::Deleting, &message);
            let again = self.until(held, &observed.inside);
            return self.with(actions, again);
        }
        let notice = (self.now < end && self.status.certificate.is_some()).then(|| {
            let user = self.status.subject.clone().unwrap_or_default();
            Notice::normal(
                Reason::GrantRevoked,
                format!("{user} has no rights by it any more"),
            )
        });
        Plan {
            notice,
            ..self.with(actions, None)
        }
    }

    fn ended(mut self, observed: &Observed) -> Plan {
        let end = end(self.grant);
        let message = format!("its time was over at {end}");
        self.ready(ConditionStatus::False, Reason::GrantEnded, &message);
        let gone = end.checked_add(SHOWN).unwrap_or(end);
        if self.now >= gone {
            return self.with(vec![Action::DeleteSelf], None);
        }
        let actions = self.take_away(observed);
        let waits = self.is_held(&actions);
        let again = match waits {
            true => self.until(gone, &observed.inside),
            false => self.until(gone, &Inside::default()),
        };
        self.with(actions, again)
    }

    fn refused(mut self, observed: &Observed, reason: Reason, message: &str) -> Plan {
        self.ready(ConditionStatus::False, reason, message);
        self.status.certificate = None;
        self.status.authority = None;
        self.status.not_after = None;
        self.status.sealed_token = None;
        self.status.token_not_after = None;
        self.status.subject = None;
        let actions = self.take_away(observed);
        let waits = self.is_held(&actions);
        let again = match waits {
            true => self.until(end(self.grant), &observed.inside),
            false => self.until(end(self.grant), &Inside::default()),
        };
        self.with(actions, again)
    }

    fn granted(mut self, observed: &Observed, cluster: &TenantCluster, role: &str) -> Plan {
        let end = end(self.grant);
        self.status.cluster_uid.clone_from(&cluster.metadata.uid);
        if observed.believed.is_some() {
            self.status
                .certificate_authority
                .clone_from(&observed.believed);
        }
        let (binding, authority) = match (&observed.inside, observed.authority) {
            (Inside::Answers(binding), Some(authority)) => (binding.as_ref(), authority),
            (inside, _) => {
                // What was granted stands while nothing is known.
                let stands = self.status.certificate.is_some()
                    && is_true(&self.status.conditions, ConditionType::Ready)
                    && !self.has_run_out();
                if !stands {
                    let message = waits_for(cluster, inside);
                    self.ready(ConditionStatus::False, Reason::GrantWaiting, message);
                }
                let soon = Inside::Unknown { soon: true };
                let inside = match inside {
                    // Its keys are not there yet.
                    Inside::Answers(_) => &soon,
                    other => other,
                };
                let again = self.until(end, inside);
                return self.with(Vec::new(), again);
            }
        };
        match has_secret(self.grant) {
            true => self.written(observed, (binding, authority, role)),
            false => self.issued(binding, authority, role),
        }
    }

    /// Whether the certificate that was written last has ended: it could not be renewed.
    fn has_run_out(&self) -> bool {
        let end = self.status.not_after.as_ref();
        let end = end.and_then(|end| end.parse::<Timestamp>().ok());
        has_secret(self.grant) && end.is_some_and(|end| end <= self.now)
    }

    /// What gives the rights inside, and holds the grant until they are gone.
    fn bound(&self, binding: Option<&Binding>, role: &str) -> Vec<Action> {
        let mut actions = Vec::new();
        if !has_finalizer(self.grant) {
            actions.push(Action::AddFinalizer);
        }
        if binding.and_then(|binding| binding.role.as_deref()) != Some(role) {
            // A binding's role cannot be changed.
            actions.extend(binding.map(|binding| Action::Unbind {
                uid: binding.uid.clone(),
            }));
            let role = role.to_owned();
            actions.push(Action::Bind { role });
        }
        actions
    }

    /// A grant whose key is made here.
    fn written(
        mut self,
        observed: &Observed,
        (binding, authority, role): (Option<&Binding>, Authority, &str),
    ) -> Plan {
        let lacks = match (&observed.secret, &observed.server, &observed.believed) {
            (Held::Unknown, ..) => Some("Secrets of this namespace cannot be read yet"),
            (_, Some(_), Some(_)) => None,
            _ => Some("the tenant cluster has no address yet"),
        };
        if let Some(message) = lacks {
            if self.status.certificate.is_none() || self.has_run_out() {
                self.ready(ConditionStatus::False, Reason::GrantWaiting, message);
            }
            let again = self.until(end(self.grant), &Inside::Unknown { soon: true });
            return self.with(Vec::new(), again);
        }
        let mut actions = self.bound(binding, role);
        let good = match &observed.secret {
            Held::Own(there) => there.as_ref().filter(|there| there.is_good),
            _ => None,
        };
        let is_first = self.status.certificate.is_none();
        let seconds = self.grant.spec.ttl_seconds.min(self.most_seconds);
        let life = SignedDuration::from_secs(i64::from(seconds));
        let until = match good {
            Some(Kubeconfig {
                certificate, until, ..
            }) => {
                self.status.certificate = Some(certificate.clone());
                *until
            }
            None => {
                self.status.certificate = None;
                let until = self.now.checked_add(life).unwrap_or(self.now);
                let until = until.min(authority.end);
                actions.push(Action::IssueSecret { until });
                until
            }
        };
        if good.is_some_and(|there| !there.is_current) {
            actions.push(Action::CorrectSecret);
        }
        let user = format!("{USER_PREFIX}{}", self.grant.spec.user);
        let message = format!(
            "{user} has the rights of the ClusterRole {role} by Secret {}, until {until} and, as it is renewed, until this is deleted",
            self.grant.spec.secret_name.as_deref().unwrap_or_default()
        );
        let notice = is_first.then(|| Notice::normal(Reason::GrantIssued, message.clone()));
        self.status.authority = Some(authority.generation);
        self.status.not_after = Some(until.to_string());
        self.status.subject = Some(user);
        self.ready(ConditionStatus::True, Reason::GrantIssued, &message);
        let renewal = until.checked_sub(life / 3).unwrap_or(until);
        let again = self.until(renewal, &Inside::default());
        Plan {
            notice,
            ..self.with(actions, again)
        }
    }

    fn issued(mut self, binding: Option<&Binding>, authority: Authority, role: &str) -> Plan {
        let until = end(self.grant).min(authority.end);
        let is_first = self.status.certificate.is_none();
        let mut actions = self.bound(binding, role);
        if is_first || self.status.authority != Some(authority.generation) {
            self.status.certificate = None;
            actions.push(Action::Sign { until });
        }
        if has_token(self.grant) && self.status.sealed_token.is_none() {
            let left = until.duration_since(self.now).as_secs();
            // Kubernetes makes none that is shorter.
            let seconds = left.max(i64::from(LEAST_SECONDS));
            actions.push(Action::IssueToken { seconds });
        }
        let user = format!("{USER_PREFIX}{}", self.grant.spec.user);
        let message = format!("{user} has the rights of the ClusterRole {role} until {until}");
        let notice = is_first.then(|| Notice::normal(Reason::GrantIssued, message.clone()));
        self.status.authority = Some(authority.generation);
        self.status.not_after = Some(until.to_string());
        self.status.subject = Some(user);
        self.ready(ConditionStatus::True, Reason::GrantIssued, &message);
        let again = self.until(end(self.grant), &Inside::default());
        Plan {
            notice,
            ..self.with(actions, again)
        }
    }
}

/// What a grant waits for.
fn waits_for(cluster: &TenantCluster, inside: &Inside) -> &'static str {
    match inside {
        Inside::Answers(_) => "the authority users-ca of the tenant cluster is not there yet",
        Inside::Unknown { .. } if is_asleep(cluster) => {
            "the tenant cluster sleeps, falls asleep or wakes: it is granted once it is awake (`covey wake`)"
        }
        Inside::Unknown { .. } => "the API of the tenant cluster does not answer yet",
    }
}
