"""From a schema to what a mask can enforce, keyword by keyword, and what is left to the check.

`lowered` goes through a schema by the table of `rules`: of `numbers`, `strings`, `arrays`, `sets` of their
items, `objects`, values of `any_type`, and `combinators`. `marks` are what it says in words of our own.
"""
