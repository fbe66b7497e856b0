using System;
using System.Net.Http;
using System.Net.Http.Json;
using System.Threading.Tasks;

// Sends one body by default, and by the line of the page; prints the status of each answer.
class WithDotnet
{
    static async Task Main(string[] arguments)
    {
        var client = new HttpClient();
        client.DefaultRequestHeaders.Add("X-API-Key", Environment.GetEnvironmentVariable("KEY"));
        var url = arguments[0];
        var body = new { registrations = new[] { "AB12CDE" } };
        var refused = await client.PostAsJsonAsync(url, body);
        Console.WriteLine((int)refused.StatusCode);
        /* the line of the page */
        Console.WriteLine((int)answer.StatusCode);
    }
}
