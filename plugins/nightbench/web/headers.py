"""Headers of every answer."""

HEADERS = {
    # An answer that is opened by itself runs nothing and loads nothing.
    "Content-Security-Policy": "default-src 'none'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
