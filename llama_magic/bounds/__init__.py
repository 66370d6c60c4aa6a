"""What one call of a template may make and take: what can be called is listed, and measured before it runs.

`calls` are methods and operators, `filters` Jinja's filters and tests, and the `meter` counts. A chat
template is a stranger's (`formatters`); a `{{ expression }}` is the user's own (`model/proportion`), and
there is more room for what it has `spent`.
"""
