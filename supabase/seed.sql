-- Nothing is seeded: a user's personal organisation is made when that user is first seen.
select 1;
