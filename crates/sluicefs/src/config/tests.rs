use super::*;
use crate::cli::ShareEntry;

fn parse(text: &str) -> Result<Vec<Section<ShareEntry>>, String> {
    let file = ConfigFile {
        path: Path::new("f"),
        text: text.to_owned(),
    };
    file.sections("share", "isolation").map_err(|failure| {
        assert_eq!(failure.status(), 2);
        failure.to_string()
    })
}

const SHARE: &str = "[[share]]\ndir = '/a'\nvirtiofs = '/s'\n";

#[test]
fn a_table_says_what_the_options_say() {
    let text = "
        [[share]]
        dir = '/-a'
        virtiofs = '/s'
        tag = 'code'
        cache = 'always'
        negative-timeout = 0
        readonly = true
        writeback = false
        security-label = false
        xattr = false
        [[share]]
        dir = '/b'
        virtiofs = '/t'
        posix-acl = true
        security-label = 'always'
    ";
    let sections = parse(text).unwrap();
    let shares = sections
        .iter()
        .map(|section| section.options.share().unwrap());
    let said = [
        [
            "--tag=code",
            "--cache=always",
            "--negative-timeout=0",
            "--virtiofs=/s",
        ],
        [
            "--posix-acl",
            "--security-label=always",
            "--virtiofs=/t",
            "--",
        ],
    ];
    let more = [&["--read-only", "--no-xattr", "--", "/-a"][..], &["/b"]];
    for ((share, words), more) in shares.zip(said).zip(more) {
        let same = ShareEntry::parse(words.iter().chain(more))
            .unwrap()
            .share()
            .unwrap();
        assert_eq!(share, same);
    }
}

#[test]
fn what_is_wrong_has_a_place() {
    for (more, expected) in [
        ("colour = 'red'", "f:4:1: unknown key 'colour'"),
        ("cache = 'some'", "f:4:9: invalid value 'some'"),
        ("cache = true", "f:4:9: 'cache' is a text or a number"),
        ("cache = ['auto']", "f:4:9: 'cache' is a text or a number"),
        (
            "cahce = 'auto'",
            "f:4:1: unknown key 'cahce' (did you mean 'cache'?)",
        ),
        (
            "read_only = true",
            "f:4:1: unknown key 'read_only' (did you mean 'read-only'?)",
        ),
        ("help = true", "f:4:1: unknown key 'help'"),
        ("tag = ''", "f:4:7: "),
        ("writeback = 'yes'", "f:4:13: 'writeback' is true or false"),
        ("tag = 'a'\ntag = 'b'", "f:5:1: duplicate key"),
        ("tag = 'a", "f:4:9: "),
        ("tag =", "f:4:6: "),
        ("[[shares]]", "f:4:3: unknown key 'shares'"),
        ("[other]", "f:4:2: unknown key 'other'"),
        (
            "[[share]]\nvirtiofs = '/t'",
            "f:4:1: a key is missing: 'dir'",
        ),
    ] {
        let error = parse(&format!("{SHARE}{more}")).unwrap_err();
        assert!(error.starts_with(expected), "{more}: {error}");
        assert!(!error.contains('\n'), "{error}");
    }
    for (text, expected) in [
        ("", "f:1:1: nothing to serve"),
        ("[[share]]\n", "f:1:1: a key is missing: "),
        (
            "[[share]]\nvirtiofs = 's'",
            "f:1:1: a key is missing: 'dir'",
        ),
        ("share = 1", "f:1:9: shares are tables"),
        ("share = [1]", "f:1:10: shares are tables"),
        ("[share]\n", "f:1:1: shares are tables"),
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.starts_with(expected), "{text}: {error}");
    }
}

#[test]
fn a_table_beside_the_shares_may_be_left_out() {
    #[derive(Debug, Args)]
    struct Beside {
        #[arg(long, default_value = "kill")]
        seccomp: String,
    }
    let table = |text: &str| {
        let file = ConfigFile {
            path: Path::new("f"),
            text: format!("{SHARE}{text}"),
        };
        let shares: Vec<Section<ShareEntry>> = file.sections("share", "isolation").unwrap();
        assert_eq!(shares.len(), 1);
        let table: Result<Section<Beside>, _> = file.table("isolation");
        table
            .map(|section| section.options.seccomp)
            .map_err(|failure| failure.to_string())
    };
    assert_eq!(table("").unwrap(), "kill");
    assert_eq!(table("[isolation]\nseccomp = 'log'").unwrap(), "log");
    let unknown = table("[isolation]\nseecomp = 'log'").unwrap_err();
    assert!(
        unknown.starts_with("f:5:1: unknown key 'seecomp' (did you mean 'seccomp'?)"),
        "{unknown}"
    );
    let list = table("[[isolation]]\nseccomp = 'log'").unwrap_err();
    assert!(list.contains("[isolation] is a table"), "{list}");
}
