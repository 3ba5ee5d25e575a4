//! Finds all positions in a Rust source file at which a mutation test can change the code, and the possible changes.
//!
//! A mutant replaces a function body by a fixed value, swaps an operator, or negates a condition. It may also delete a
//! negation, a match arm, or a call whose result is not used. Test code, constants and `Debug` are left alone.

use proc_macro2::Span;
use std::ops::Range;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{BinOp, Expr, ReturnType, Stmt, Type, UnOp};

/// A piece of the code that implements a mutant.
#[derive(Clone, Debug)]
pub enum Piece {
    /// New text that replaces a part of the source.
    Text(String),
    /// A part of the source text, given by its range of bytes in the file. Other mutants within this range are
    /// included.
    Source(Range<usize>),
}

/// How a mutant is written into the source, next to the original code. At run time, an environment variable switches
/// the mutant on.
#[derive(Clone, Debug)]
pub enum Form {
    /// The mutant is an expression that replaces the original expression.
    Instead(Vec<Piece>),
    /// The mutant leaves the statement out.
    Nothing,
    /// The mutant makes the function return this value at its beginning.
    Return(String),
    /// The mutant adds a guard to the match arm, so that the arm no longer matches.
    NoMatch,
}

/// A change of the source that the tests should detect.
#[derive(Clone, Debug)]
pub struct Mutant {
    /// The bytes of the file that the mutant replaces.
    pub range: Range<usize>,
    /// The line on which the mutant begins, from 1.
    pub line: usize,
    /// A description of the mutant's change of the code.
    pub description: String,
    /// How the mutant is written into the source.
    pub form: Form,
}

/// Returns all mutants of a source file, in the order of the file.
pub fn mutants(source: &str) -> Result<Vec<Mutant>, syn::Error> {
    let file = syn::parse_file(source)?;
    let mut finder = Finder { source, function: String::new(), found: Vec::new() };
    finder.visit_file(&file);
    finder.found.sort_by_key(|mutant| (mutant.range.start, mutant.range.end));
    Ok(finder.found)
}

/// Returns the number of lines of code: without empty lines, comments, and the tests at the end.
pub fn lines_of_code(source: &str) -> usize {
    let code = source.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    code.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//")).count()
}

struct Finder<'a> {
    source: &'a str,
    function: String,
    found: Vec<Mutant>,
}

impl Finder<'_> {
    fn add(&mut self, span: Span, description: String, form: Form) {
        self.add_at(span.byte_range(), span.start().line, description, form);
    }

    fn add_at(&mut self, range: Range<usize>, line: usize, description: String, form: Form) {
        let description = format!("{}: {description}", self.function);
        self.found.push(Mutant { range, line, description, form });
    }

    /// Returns the source text of a span as one shortened line.
    fn text(&self, span: Span) -> String {
        let text = self.source[span.byte_range()].split_whitespace().collect::<Vec<_>>().join(" ");
        let short: String = text.chars().take(60).collect();
        if short.len() < text.len() { format!("{short}…") } else { short }
    }

    fn instead(&mut self, span: Span, pieces: Vec<Piece>, description: String) {
        self.add(span, description, Form::Instead(pieces));
    }

    fn function(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let before = std::mem::replace(&mut self.function, signature.ident.to_string());
        let line = signature.ident.span().start().line;
        if !block.stmts.is_empty() {
            let inside = block.brace_token.span.open().byte_range().end;
            for value in values(&signature.output) {
                if !self.is_value(block, &value) {
                    let description = format!("body -> {value}");
                    self.add_at(inside..inside, line, description, Form::Return(value));
                }
            }
        }
        visit::visit_block(self, block);
        self.function = before;
    }

    /// Returns whether a function body only returns this value.
    fn is_value(&self, block: &syn::Block, value: &str) -> bool {
        let unused = |statement: &Stmt| matches!(statement, Stmt::Local(local) if matches!(local.pat, syn::Pat::Wild(_)));
        match block.stmts.split_last() {
            Some((Stmt::Expr(last, None), before)) => {
                self.text(last.span()) == value && before.iter().all(unused)
            }
            _ => value == "()" && block.stmts.iter().all(unused),
        }
    }

    fn condition(&mut self, condition: &Expr) {
        if !has_let(condition) && !matches!(condition, Expr::Unary(_)) {
            let span = condition.span();
            let pieces =
                vec![Piece::Text("!(".into()), Piece::Source(span.byte_range()), Piece::Text(")".into())];
            let description = format!("negate the condition `{}`", self.text(span));
            self.instead(span, pieces, description);
        }
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let debug = item.trait_.as_ref().and_then(|(_, path, _)| path.segments.last());
        if !is_test(&item.attrs) && debug.is_none_or(|name| name.ident != "Debug") {
            visit::visit_item_impl(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_test(&item.attrs) && item.sig.constness.is_none() {
            self.function(&item.sig, &item.block);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_test(&item.attrs) && item.sig.constness.is_none() {
            self.function(&item.sig, &item.block);
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default
            && !is_test(&item.attrs)
        {
            self.function(&item.sig, block);
        }
    }

    // A constant cannot call the function that switches mutants on, and a pattern is not an expression. Neither is
    // mutated.
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
    fn visit_type(&mut self, _: &'ast Type) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}

    fn visit_expr_repeat(&mut self, repeat: &'ast syn::ExprRepeat) {
        self.visit_expr(&repeat.expr);
    }

    fn visit_stmt(&mut self, statement: &'ast Stmt) {
        if let Stmt::Expr(expr @ (Expr::Call(_) | Expr::MethodCall(_)), Some(_)) = statement {
            let description = format!("delete the call `{}`", self.text(expr.span()));
            self.add(statement.span(), description, Form::Nothing);
        }
        visit::visit_stmt(self, statement);
    }

    fn visit_expr_if(&mut self, expr: &'ast syn::ExprIf) {
        self.condition(&expr.cond);
        visit::visit_expr_if(self, expr);
    }

    fn visit_expr_match(&mut self, expr: &'ast syn::ExprMatch) {
        let catches = |arm: &syn::Arm| arm.guard.is_none() && matches!(arm.pat, syn::Pat::Wild(_));
        let complete = expr.arms.iter().any(catches);
        for arm in &expr.arms {
            let pattern = self.text(arm.pat.span());
            if let Some((_, guard)) = &arm.guard {
                if !has_let(guard) {
                    for value in ["true", "false"] {
                        let description = format!("guard of `{pattern}` -> {value}");
                        self.instead(guard.span(), vec![Piece::Text(value.into())], description);
                    }
                }
            } else if complete && !catches(arm) {
                let end = arm.pat.span().byte_range().end;
                let line = arm.pat.span().start().line;
                self.add_at(end..end, line, format!("delete the arm `{pattern}`"), Form::NoMatch);
            }
        }
        visit::visit_expr_match(self, expr);
    }

    fn visit_expr_unary(&mut self, expr: &'ast syn::ExprUnary) {
        if matches!(expr.op, UnOp::Not(_) | UnOp::Neg(_)) {
            let description = format!("delete the sign of `{}`", self.text(expr.span()));
            self.instead(expr.span(), vec![Piece::Source(expr.expr.span().byte_range())], description);
        }
        visit::visit_expr_unary(self, expr);
    }

    fn visit_expr_binary(&mut self, expr: &'ast syn::ExprBinary) {
        let (left, right) = (expr.left.span().byte_range(), expr.right.span().byte_range());
        if !has_let(&expr.left) && !has_let(&expr.right) {
            for operator in swapped(&expr.op) {
                let pieces = vec![
                    Piece::Source(left.clone()),
                    Piece::Text(format!(" {operator} ")),
                    Piece::Source(right.clone()),
                ];
                let description = format!("`{}` with {operator}", self.text(expr.span()));
                self.instead(expr.span(), pieces, description);
            }
        }
        visit::visit_expr_binary(self, expr);
    }
}

/// Returns the operators with which mutants replace `operator`.
fn swapped(operator: &BinOp) -> &'static [&'static str] {
    match operator {
        BinOp::Lt(_) => &["<=", ">="],
        BinOp::Le(_) => &["<", ">"],
        BinOp::Gt(_) => &[">=", "<="],
        BinOp::Ge(_) => &[">", "<"],
        BinOp::Eq(_) => &["!="],
        BinOp::Ne(_) => &["=="],
        BinOp::And(_) => &["||"],
        BinOp::Or(_) => &["&&"],
        BinOp::Add(_) => &["-", "*"],
        BinOp::Sub(_) => &["+"],
        BinOp::Mul(_) => &["+", "/"],
        BinOp::Div(_) => &["*"],
        BinOp::Rem(_) => &["/"],
        BinOp::BitAnd(_) => &["|"],
        BinOp::BitOr(_) => &["&"],
        BinOp::BitXor(_) => &["|"],
        BinOp::Shl(_) => &[">>"],
        BinOp::Shr(_) => &["<<"],
        BinOp::AddAssign(_) => &["-="],
        BinOp::SubAssign(_) => &["+="],
        BinOp::MulAssign(_) => &["/="],
        BinOp::DivAssign(_) => &["*="],
        BinOp::BitAndAssign(_) => &["|="],
        BinOp::BitOrAssign(_) => &["&="],
        _ => &[],
    }
}

/// Returns fixed values that a function with this return type could return.
fn values(output: &ReturnType) -> Vec<String> {
    let ReturnType::Type(_, output) = output else { return vec!["()".into()] };
    let Type::Path(path) = &**output else { return Vec::new() };
    let Some(last) = path.path.segments.last() else { return Vec::new() };
    let texts: &[&str] = match last.ident.to_string().as_str() {
        "bool" => &["true", "false"],
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" | "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => {
            &["0", "1"]
        }
        "f32" | "f64" => &["0.0", "1.0"],
        "Option" => &["None", "Some(Default::default())"],
        "Result" => &["Ok(Default::default())"],
        "Poll" => &["std::task::Poll::Pending"],
        // A constructor is not mutated, because it has no other value to return.
        "Self" => &[],
        _ => &["Default::default()"],
    };
    texts.iter().map(|&text| text.into()).collect()
}

/// Returns whether a condition binds names with `let`, so that it cannot be put in parentheses.
fn has_let(expr: &Expr) -> bool {
    match expr {
        Expr::Let(_) => true,
        Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        _ => false,
    }
}

/// Returns whether an item of the source is compiled only for tests.
fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let tokens = match &attribute.meta {
            syn::Meta::List(list) if list.path.is_ident("cfg") => list.tokens.to_string(),
            meta => return meta.path().is_ident("test"),
        };
        tokens.contains("test")
    })
}
