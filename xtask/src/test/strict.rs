//! Which tests may never be flaky: those of fencing, rights, isolation, lost data and deletion.
//!
//! Invariant: decided by the names of a test and its modules alone, so a new one is among them as soon
//! as it is called what it is about.

/// Beginnings of words.
const STEMS: [&str; 22] = [
    // fencing
    "fenc",
    "leader",
    "lease",
    // rights
    "authori",
    "credential",
    "encrypt",
    "hostile",
    "identity",
    "polic",
    "right",
    "secret",
    // isolation
    "egress",
    "isolat",
    "tenants",
    // lost data
    "death",
    "format",
    "lose",
    "losing",
    "loss",
    "lost",
    // deletion
    "delet",
    "orphan",
];

/// Whether the test `name` (with its modules) is one of them.
pub(crate) fn is_strict(name: &str) -> bool {
    let mut words = name.split(|c: char| !c.is_ascii_alphanumeric());
    words.any(|word| STEMS.iter().any(|stem| word.starts_with(stem)))
}

#[cfg(test)]
mod tests {
    use super::is_strict;

    #[test]
    fn names_tell_what_a_test_is_about() {
        for strict in [
            "leadership::lease_that_another_took_fences_the_old_leader",
            "rights::each_certificate_may_do_its_job_and_no_more",
            "isolation::two_tenants_refuse_each_others_certificates_and_tokens",
            "volumes::death::a_volume_leaves_a_machine_that_is_dead",
            "three_members_lose_one_and_then_the_leader_without_losing_a_write",
            "filesystem::disk_with_anything_on_it_is_never_formatted",
            "deletion::it_goes_while_etcd_is_down",
            "crash::deletion_leaves_nothing_wherever_the_operator_dies",
        ] {
            assert!(is_strict(strict), "{strict}");
        }
        for other in [
            "faults::conflict_at_every_fourth_write_is_overcome",
            "crash::a_life_ends_the_same_wherever_the_ccm_dies",
            "chart_lints_without_a_warning",
        ] {
            assert!(!is_strict(other), "{other}");
        }
    }
}
