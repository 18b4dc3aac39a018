//! Random operations on the model and on the export engine, which must agree
//! on every reply and on the tree that they leave.
//!
//! The sequences are the same in each run, so that a failure comes from a
//! change. `RANDOM_CASES=N` tries N others, from a seed that changes.

mod op;
mod side;

use op::{Step, steps};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use side::Side;
use sluice_export::{Export, ExportOptions};
use sluice_lab::model::ModelService;
use sluice_vfs::AccessChecks;
use std::collections::BTreeSet;
use std::env;

/// Sequences that each test tries.
const CASES: u32 = 300;

/// Operations of one sequence, at most.
const STEPS_MAX: usize = 50;

#[test]
fn model_and_engine_agree_where_peers_check() {
    agree(AccessChecks::Peer);
}

#[test]
fn model_and_engine_agree_where_the_service_checks() {
    agree(AccessChecks::Service);
}

fn agree(checks: AccessChecks) {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: acting for several users takes root");
        assert_ne!(env::var("CI").as_deref(), Ok("true"), "CI runs as root");
        return;
    }
    let outcome = runner().run(&steps(STEPS_MAX), |steps| compare(checks, &steps));
    match outcome {
        Ok(()) => {}
        Err(TestError::Fail(why, steps)) => {
            let steps: Vec<String> = steps.iter().map(|step| format!("  {step:?}")).collect();
            panic!("{why}\nafter the last of\n{}", steps.join("\n"));
        }
        Err(error) => panic!("{error}"),
    }
}

fn runner() -> TestRunner {
    let searched = env::var("RANDOM_CASES").ok();
    let searched = searched.and_then(|cases| cases.parse().ok());
    let config = Config {
        cases: searched.unwrap_or(CASES),
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..Config::default()
    };
    match searched {
        Some(_) => TestRunner::new(config),
        None => {
            let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
            TestRunner::new_with_rng(config, rng)
        }
    }
}

fn compare(checks: AccessChecks, steps: &[Step]) -> Result<(), TestCaseError> {
    let dir = tempfile::tempdir()?;
    let export = Export::open(dir.path(), ExportOptions::default());
    let export = export.map_err(|error| TestCaseError::fail(error.to_string()))?;
    let mut model = Side::attach(&ModelService::default(), checks);
    let mut engine = Side::attach(&export, checks);
    for step in steps {
        let expected = model.run(step);
        let got = engine.run(step);
        if expected != got {
            return Err(TestCaseError::fail(format!(
                "{step:?}:\n  the model says {expected:?}\n  the engine says {got:?}"
            )));
        }
    }
    let (expected, got) = (model.tree(), engine.tree());
    if expected != got {
        let paths: BTreeSet<&String> = expected.keys().chain(got.keys()).collect();
        let differences: Vec<String> = paths
            .into_iter()
            .filter(|path| expected.get(*path) != got.get(*path))
            .map(|path| {
                let (expected, got) = (expected.get(path), got.get(path));
                format!("{path:?}:\n  the model has {expected:?}\n  the engine has {got:?}")
            })
            .collect();
        return Err(TestCaseError::fail(differences.join("\n")));
    }
    Ok(())
}
