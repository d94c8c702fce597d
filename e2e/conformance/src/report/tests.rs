//! Reports of ginkgo as it writes them, and what is made of them.
//!
//! Invariant: each text is of the form that a run wrote.

use super::*;

const JUNIT: &str = r#"<testsuites><testsuite name="Kubernetes e2e suite">
    <testcase name="[SynchronizedBeforeSuite]" time="1"/>
    <testcase name="[It] [sig-a] works [Conformance]" status="passed" time="2.5"/>
    <testcase name="[It] [sig-a] fails [Conformance]" status="failed" time="3"><failure message="" type="failed">[FAILED] Timed out after 60.001s.
Expected
    &lt;string>: one
to equal
    &lt;string>: other
In [It] at: kubelet.go:214 @ 11/30/26 17:16:15.596
</failure></testcase>
    <testcase name="[It] [sig-a] is serial [Serial] [Conformance]" status="skipped" time="0"><skipped message="skipped"/></testcase>
    </testsuite></testsuites>"#;
const LIST: &str = "- testname: A
  codename: '[sig-a] works
    [Conformance]'
- codename: '[sig-a] fails [Conformance]'
- codename: '[sig-a] is serial [Serial] [Conformance]'
- codename: '[sig-a] nobody runs [Conformance]'
";

fn report(outcomes: &[Outcome]) -> Report {
    Report::of(
        "1.2.3",
        Suite::Conformance,
        listed(LIST).unwrap(),
        outcomes,
        false,
    )
}

fn parallel() -> Vec<Outcome> {
    outcomes(JUNIT, "parallel").unwrap()
}

fn serial() -> Vec<Outcome> {
    let serial = r#"<testsuites><testcase name="[It] [sig-a] works [Conformance]"><skipped/></testcase>
        <testcase name="[It] [sig-a] is serial [Serial] [Conformance]" time="4"/></testsuites>"#;
    outcomes(serial, "serial").unwrap()
}

#[test]
fn each_name_of_the_list_is_counted_once_by_what_became_of_it() {
    let report = report(&parallel());
    assert_eq!((report.total, report.passed), (4, 1));
    assert_eq!(report.failed.len(), 1);
    let why = "Timed out after 60.001s. Expected <string>: one to equal <string>: other";
    assert_eq!(report.failed[0].why, why);
    assert_eq!(report.not_run.len(), 2);
    assert!((report.seconds["parallel"] - 5.5).abs() < 1e-9);
    assert!(!report.is_as_explained());
}

#[test]
fn message_that_a_failure_has_is_said_on_one_line() {
    let junit = JUNIT.replace(r#"message="""#, r#"message="&#10;no pod&#10;more""#);
    let outcomes = outcomes(&junit, "parallel").unwrap();
    assert_eq!(report(&outcomes).failed[0].why, "no pod more");
}

#[test]
fn what_one_part_skips_counts_as_the_other_part_says() {
    let mut both = parallel();
    both.extend(serial());
    for all in [both.clone(), both.into_iter().rev().collect()] {
        let report = report(&all);
        assert_eq!((report.passed, report.not_run.len()), (2, 1));
    }
}

#[test]
fn a_run_of_nothing_is_no_success() {
    assert!(!report(&[]).is_as_explained());
}

#[test]
fn an_empty_list_is_an_error() {
    assert!(listed("[]").is_err());
    assert!(outcomes("no report", "parallel").is_err());
}

#[test]
fn run_that_was_interrupted_says_so_and_is_no_success() {
    let junit = r#"<testsuites>
        <testcase name="[It] [sig-a] works [Conformance]" status="passed" time="1"/>
        <testcase name="[It] [sig-a] fails [Conformance]" status="interrupted" time="9"><error message="interrupted"/></testcase>
        <testcase name="[It] [sig-a] nobody runs [Conformance]" status="aborted" time="1"><error message="aborted"/></testcase>
        </testsuites>"#;
    let ended = outcomes(junit, "parallel").unwrap();
    let listed = listed(LIST).unwrap();
    let whole = Report::of("1.2.3", Suite::Conformance, listed.clone(), &ended, false);
    assert!(whole.is_as_explained(), "{whole}");
    let report = Report::of("1.2.3", Suite::Conformance, listed, &ended, true);
    assert_eq!((report.passed, report.failed.len()), (1, 0));
    assert_eq!(report.not_run.len(), 3, "what was ended is not run");
    assert!(!report.is_as_explained());
    assert!(report.to_string().contains("INCOMPLETE"), "{report}");
    assert!(!whole.to_string().contains("INCOMPLETE"), "{whole}");
}

#[test]
fn tests_of_a_suite_beyond_the_list_are_those_that_carry_its_name() {
    let junit = r#"<testsuites>
        <testcase name="[It] External Storage [Driver: csi.covey.dev] volumes should store data" status="passed" time="1"/>
        <testcase name="[It] External Storage [Driver: csi.covey.dev] subPath should work" status="skipped" time="0"><skipped message="skipped - Driver does not support it&#10;more"/></testcase>
        <testcase name="[It] External Storage [Driver: csi.covey.dev] disruptive [Disruptive]" status="skipped" time="0"><skipped message="skipped"/></testcase>
        <testcase name="[It] External Storage [Driver: csi.covey.dev] nobody chose it" status="skipped" time="0"><skipped message="skipped"/></testcase>
        <testcase name="[It] [sig-a] works [Conformance]" status="skipped" time="0"><skipped message="skipped"/></testcase>
        </testsuites>"#;
    let ended = outcomes(junit, "parallel").unwrap();
    let report = Report::of("1.2.3", Suite::Storage, Vec::new(), &ended, false);
    assert_eq!((report.total, report.passed), (4, 1));
    assert_eq!(report.skipped[0].why, "Driver does not support it");
    assert!(report.left_out[0].name.contains("[Disruptive]"));
    assert_eq!(report.not_run.len(), 1);
    assert!(report.is_as_explained());
}

#[test]
fn failure_that_is_a_documented_limit_is_named_with_its_reason() {
    let junit = r#"<testsuites>
        <testcase name="[It] [sig-network] LoadBalancers [Feature:LoadBalancer] should be able to create LoadBalancer Service without NodePort and change it [Slow]" status="failed" time="1"><failure message="no answer"/></testcase>
        <testcase name="[It] [sig-network] LoadBalancers [Feature:LoadBalancer] should answer" status="passed" time="1"/>
        </testsuites>"#;
    let ended = outcomes(junit, "parallel").unwrap();
    let report = Report::of("1.2.3", Suite::LoadBalancers, Vec::new(), &ended, false);
    assert_eq!((report.failed.len(), report.not_here.len()), (0, 1));
    assert!(report.not_here[0].why.contains("NoNodePort"));
    assert!(report.is_as_explained());
}

#[test]
fn reports_of_parts_make_one_in_any_order() {
    let (one, other) = (report(&parallel()), report(&serial()));
    for all in [[one.clone(), other.clone()], [other, one]] {
        let merged = Report::merge(all.to_vec()).unwrap();
        assert_eq!((merged.total, merged.passed), (4, 2));
        assert_eq!((merged.failed.len(), merged.not_run.len()), (1, 1));
        assert_eq!(merged.seconds.len(), 2);
    }
}

#[test]
fn test_that_was_run_twice_is_in_no_merged_report() {
    let one = report(&parallel());
    let mut turned = parallel();
    // It passes at the second try, or it passes both times: either way nobody says which run counts.
    turned[1].ended = Ended::Passed;
    for other in [report(&turned), one.clone()] {
        let error = Report::merge(vec![one.clone(), other]).unwrap_err();
        assert!(error.to_string().contains("run twice"), "{error}");
    }
}

#[test]
fn reports_of_different_lists_are_not_merged() {
    let one = report(&parallel());
    let mut shorter = listed(LIST).unwrap();
    shorter.pop();
    let of = |version: &str, suite, listed: &[String]| {
        Report::of(version, suite, listed.to_vec(), &serial(), false)
    };
    let whole = listed(LIST).unwrap();
    for other in [
        of("1.2.3", Suite::Conformance, &shorter),
        of("1.2.4", Suite::Conformance, &whole),
        of("1.2.3", Suite::Storage, &whole),
    ] {
        assert!(Report::merge(vec![one.clone(), other]).is_err());
    }
    let mut edited = report(&serial());
    edited.passed_names.push("[sig-a] invented".to_owned());
    assert!(Report::merge(vec![one, edited]).is_err());
    assert!(Report::merge(Vec::new()).is_err());
}

#[test]
fn one_interrupted_part_makes_the_whole_incomplete() {
    let interrupted = Report::of(
        "1.2.3",
        Suite::Conformance,
        listed(LIST).unwrap(),
        &serial(),
        true,
    );
    let works = [Outcome {
        name: "[sig-a] works [Conformance]".to_owned(),
        ended: Ended::Passed,
        seconds: 1.0,
        part: "parallel".to_owned(),
    }];
    let merged = Report::merge(vec![report(&works), interrupted]).unwrap();
    assert!(merged.failed.is_empty() && !merged.is_as_explained());
    let text = serde_json::to_string(&merged).unwrap();
    assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), merged);
}
